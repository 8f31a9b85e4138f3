"""Color names: the colors that Graphviz knows by name, and their values.

The names are those of X11 (``rgb.txt``) and CSS, as in the manual of Graphviz. Where the two
disagree (gray, green, maroon, purple), Graphviz draws the X11 color, and so does this package.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

_PLAIN = """
    aliceblue=f0f8ff antiquewhite=faebd7 aquamarine=7fffd4 azure=f0ffff beige=f5f5dc
    bisque=ffe4c4 black=000000 blanchedalmond=ffebcd blue=0000ff blueviolet=8a2be2 brown=a52a2a
    burlywood=deb887 cadetblue=5f9ea0 chartreuse=7fff00 chocolate=d2691e coral=ff7f50
    cornflowerblue=6495ed cornsilk=fff8dc cyan=00ffff darkblue=00008b darkcyan=008b8b
    darkgoldenrod=b8860b darkgray=a9a9a9 darkgreen=006400 darkkhaki=bdb76b darkmagenta=8b008b
    darkolivegreen=556b2f darkorange=ff8c00 darkorchid=9932cc darkred=8b0000 darksalmon=e9967a
    darkseagreen=8fbc8f darkslateblue=483d8b darkslategray=2f4f4f darkturquoise=00ced1
    darkviolet=9400d3 deeppink=ff1493 deepskyblue=00bfff dimgray=696969 dodgerblue=1e90ff
    firebrick=b22222 floralwhite=fffaf0 forestgreen=228b22 gainsboro=dcdcdc ghostwhite=f8f8ff
    gold=ffd700 goldenrod=daa520 gray=c0c0c0 green=00ff00 greenyellow=adff2f honeydew=f0fff0
    hotpink=ff69b4 indianred=cd5c5c ivory=fffff0 khaki=f0e68c lavender=e6e6fa
    lavenderblush=fff0f5 lawngreen=7cfc00 lemonchiffon=fffacd lightblue=add8e6 lightcoral=f08080
    lightcyan=e0ffff lightgoldenrod=eedd82 lightgoldenrodyellow=fafad2 lightgray=d3d3d3
    lightgreen=90ee90 lightpink=ffb6c1 lightsalmon=ffa07a lightseagreen=20b2aa
    lightskyblue=87cefa lightslateblue=8470ff lightslategray=778899 lightsteelblue=b0c4de
    lightyellow=ffffe0 limegreen=32cd32 linen=faf0e6 magenta=ff00ff maroon=b03060
    mediumaquamarine=66cdaa mediumblue=0000cd mediumorchid=ba55d3 mediumpurple=9370db
    mediumseagreen=3cb371 mediumslateblue=7b68ee mediumspringgreen=00fa9a mediumturquoise=48d1cc
    mediumvioletred=c71585 midnightblue=191970 mintcream=f5fffa mistyrose=ffe4e1 moccasin=ffe4b5
    navajowhite=ffdead navy=000080 navyblue=000080 oldlace=fdf5e6 olivedrab=6b8e23 orange=ffa500
    orangered=ff4500 orchid=da70d6 palegoldenrod=eee8aa palegreen=98fb98 paleturquoise=afeeee
    palevioletred=db7093 papayawhip=ffefd5 peachpuff=ffdab9 peru=cd853f pink=ffc0cb plum=dda0dd
    powderblue=b0e0e6 purple=a020f0 red=ff0000 rosybrown=bc8f8f royalblue=4169e1
    saddlebrown=8b4513 salmon=fa8072 sandybrown=f4a460 seagreen=2e8b57 seashell=fff5ee
    sienna=a0522d skyblue=87ceeb slateblue=6a5acd slategray=708090 snow=fffafa
    springgreen=00ff7f steelblue=4682b4 tan=d2b48c thistle=d8bfd8 tomato=ff6347 turquoise=40e0d0
    violet=ee82ee violetred=d02090 wheat=f5deb3 white=ffffff whitesmoke=f5f5f5 yellow=ffff00
    yellowgreen=9acd32
"""
"""Names without a number; *grey* is accepted for *gray*."""

_SHADES = """
    antiquewhite=ffefdb,eedfcc,cdc0b0,8b8378 aquamarine=7fffd4,76eec6,66cdaa,458b74
    azure=f0ffff,e0eeee,c1cdcd,838b8b bisque=ffe4c4,eed5b7,cdb79e,8b7d6b
    blue=0000ff,0000ee,0000cd,00008b brown=ff4040,ee3b3b,cd3333,8b2323
    burlywood=ffd39b,eec591,cdaa7d,8b7355 cadetblue=98f5ff,8ee5ee,7ac5cd,53868b
    chartreuse=7fff00,76ee00,66cd00,458b00 chocolate=ff7f24,ee7621,cd661d,8b4513
    coral=ff7256,ee6a50,cd5b45,8b3e2f cornsilk=fff8dc,eee8cd,cdc8b1,8b8878
    cyan=00ffff,00eeee,00cdcd,008b8b darkgoldenrod=ffb90f,eead0e,cd950c,8b6508
    darkolivegreen=caff70,bcee68,a2cd5a,6e8b3d darkorange=ff7f00,ee7600,cd6600,8b4500
    darkorchid=bf3eff,b23aee,9a32cd,68228b darkseagreen=c1ffc1,b4eeb4,9bcd9b,698b69
    darkslategray=97ffff,8deeee,79cdcd,528b8b deeppink=ff1493,ee1289,cd1076,8b0a50
    deepskyblue=00bfff,00b2ee,009acd,00688b dodgerblue=1e90ff,1c86ee,1874cd,104e8b
    firebrick=ff3030,ee2c2c,cd2626,8b1a1a gold=ffd700,eec900,cdad00,8b7500
    goldenrod=ffc125,eeb422,cd9b1d,8b6914 green=00ff00,00ee00,00cd00,008b00
    honeydew=f0fff0,e0eee0,c1cdc1,838b83 hotpink=ff6eb4,ee6aa7,cd6090,8b3a62
    indianred=ff6a6a,ee6363,cd5555,8b3a3a ivory=fffff0,eeeee0,cdcdc1,8b8b83
    khaki=fff68f,eee685,cdc673,8b864e lavenderblush=fff0f5,eee0e5,cdc1c5,8b8386
    lemonchiffon=fffacd,eee9bf,cdc9a5,8b8970 lightblue=bfefff,b2dfee,9ac0cd,68838b
    lightcyan=e0ffff,d1eeee,b4cdcd,7a8b8b lightgoldenrod=ffec8b,eedc82,cdbe70,8b814c
    lightpink=ffaeb9,eea2ad,cd8c95,8b5f65 lightsalmon=ffa07a,ee9572,cd8162,8b5742
    lightskyblue=b0e2ff,a4d3ee,8db6cd,607b8b lightsteelblue=cae1ff,bcd2ee,a2b5cd,6e7b8b
    lightyellow=ffffe0,eeeed1,cdcdb4,8b8b7a magenta=ff00ff,ee00ee,cd00cd,8b008b
    maroon=ff34b3,ee30a7,cd2990,8b1c62 mediumorchid=e066ff,d15fee,b452cd,7a378b
    mediumpurple=ab82ff,9f79ee,8968cd,5d478b mistyrose=ffe4e1,eed5d2,cdb7b5,8b7d7b
    navajowhite=ffdead,eecfa1,cdb38b,8b795e olivedrab=c0ff3e,b3ee3a,9acd32,698b22
    orange=ffa500,ee9a00,cd8500,8b5a00 orangered=ff4500,ee4000,cd3700,8b2500
    orchid=ff83fa,ee7ae9,cd69c9,8b4789 palegreen=9aff9a,90ee90,7ccd7c,548b54
    paleturquoise=bbffff,aeeeee,96cdcd,668b8b palevioletred=ff82ab,ee799f,cd6889,8b475d
    peachpuff=ffdab9,eecbad,cdaf95,8b7765 pink=ffb5c5,eea9b8,cd919e,8b636c
    plum=ffbbff,eeaeee,cd96cd,8b668b purple=9b30ff,912cee,7d26cd,551a8b
    red=ff0000,ee0000,cd0000,8b0000 rosybrown=ffc1c1,eeb4b4,cd9b9b,8b6969
    royalblue=4876ff,436eee,3a5fcd,27408b salmon=ff8c69,ee8262,cd7054,8b4c39
    seagreen=54ff9f,4eee94,43cd80,2e8b57 seashell=fff5ee,eee5de,cdc5bf,8b8682
    sienna=ff8247,ee7942,cd6839,8b4726 skyblue=87ceff,7ec0ee,6ca6cd,4a708b
    slateblue=836fff,7a67ee,6959cd,473c8b slategray=c6e2ff,b9d3ee,9fb6cd,6c7b8b
    snow=fffafa,eee9e9,cdc9c9,8b8989 springgreen=00ff7f,00ee76,00cd66,008b45
    steelblue=63b8ff,5cacee,4f94cd,36648b tan=ffa54f,ee9a49,cd853f,8b5a2b
    thistle=ffe1ff,eed2ee,cdb5cd,8b7b8b tomato=ff6347,ee5c42,cd4f39,8b3626
    turquoise=00f5ff,00e5ee,00c5cd,00868b violetred=ff3e96,ee3a8c,cd3278,8b2252
    wheat=ffe7ba,eed8ae,cdba96,8b7e66 yellow=ffff00,eeee00,cdcd00,8b8b00
"""
"""Names that may have a number appended, from 1, the lightest, to 4."""

_SCHEMES = """
    accent=8 blues=9 brbg=11 bugn=9 bupu=9 dark2=8 gnbu=9 greens=9 greys=9 oranges=9 orrd=9
    paired=12 pastel1=9 pastel2=8 piyg=11 prgn=11 pubu=9 pubugn=9 puor=11 purd=9 purples=9
    rdbu=11 rdgy=11 rdpu=9 rdylbu=11 rdylgn=11 reds=9 set1=9 set2=8 set3=12 spectral=11 ylgn=9
    ylgnbu=9 ylorbr=9 ylorrd=9
"""
"""The schemes of ColorBrewer, with the maximum number of their colors."""


def _pairs(listed: str) -> Iterator[tuple[str, str]]:
    for part in listed.split():
        name, _, what = part.partition("=")
        yield name, what


def _names() -> Iterator[tuple[str, str]]:
    grays = {f"gray{share}": f"{int(share * 2.55 + 0.5):02x}" * 3 for share in range(101)}
    for name, what in {**dict(_pairs(_PLAIN)), **grays}.items():
        yield name, f"#{what}"
        yield name.replace("gray", "grey"), f"#{what}"
    for name, shades in _pairs(_SHADES):
        for number, shade in enumerate(shades.split(","), 1):
            yield f"{name}{number}", f"#{shade}"


NAMES: Mapping[str, str] = MappingProxyType(dict(_names()))
"""``"#rrggbb"`` by name."""

SCHEMES: Mapping[str, int] = MappingProxyType(
    {f"{name}{size}": size for name, most in _pairs(_SCHEMES) for size in range(3, int(most) + 1)}
)
"""The number of colors of each ColorBrewer scheme."""
