"""All architectures of libraries, compared with accounts that share no code with the package."""
