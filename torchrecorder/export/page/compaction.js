// Compaction: moves boxes and lines of a scope across the flow towards their neighbors, in the
// order of `at` in each row, as in layout/layered/compaction.py.

"use strict";

const createCompaction = constants => {
  const { COMPACTION_PASSES, MAX_PUSHES, GROUP_DISTANCE, MIN_MOVE, MAX_WIDENING } = constants;
  const { BEND_COST, MAX_BEND_EDGES } = constants;
  const { BOX_SEPARATION, MIXED_SEPARATION, LINE_SEPARATION } = constants;

  // The cost of a move by a distance: the lengths and bends of lines.
  function costOf(requests, distance) {
    let cost = 0;
    for (const [wanted, weight] of requests) {
      const off = Math.abs(wanted - distance);
      cost += weight * (off + (off >= MIN_MOVE ? BEND_COST : 0));
    }
    return cost;
  }

  // The move with the lowest cost, among staying and all requested moves.
  function cheapest(requests, low = -Infinity, high = Infinity) {
    let best = 0, least = costOf(requests, 0);
    for (const [distance] of requests) {
      if (distance < low || distance > high) continue;
      const cost = costOf(requests, distance) + MIN_MOVE;
      if (cost < least) [best, least] = [distance, cost];
    }
    return best;
  }

  // The nearest position with the shortest lines (weighted median).
  function median(requests) {
    requests.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const half = requests.reduce((sum, each) => sum + each[1], 0) / 2;
    let weightSoFar = 0;
    for (let place = 0; place < requests.length; place++) {
      weightSoFar += requests[place][1];
      if (weightSoFar > half) return requests[place][0];
      if (weightSoFar === half) {
        return Math.min(Math.max(0, requests[place][0]), requests[place + 1][0]);
      }
    }
    return 0;
  }

  // The positions of `bodies`, {first, last, left, right, box} each, with the ends of segments,
  // [one, here, other, there, weight] each, in line if possible, and those of equal `branches`,
  // [ends, members] each, centered.
  return (bodies, at, segments, branches) => {
    const rightmost = [...at], leftmost = [...at];
    const all = bodies.map((_, body) => body);
    const order = [...all].sort((a, b) => at[a] - at[b] || a - b);
    const before = all.map(() => []), after = all.map(() => []), latest = new Map();
    for (const body of order) {
      const here = bodies[body], overlapping = new Set();
      for (let row = here.first; row <= here.last; row++) {
        if (latest.has(row)) overlapping.add(latest.get(row));
        latest.set(row, body);
      }
      for (const other of overlapping) {
        const neighbor = bodies[other];
        const mixed = neighbor.box || here.box ? MIXED_SEPARATION : LINE_SEPARATION;
        const gap = neighbor.box && here.box ? BOX_SEPARATION : mixed;
        const apart = neighbor.right + gap + here.left;
        before[body].push([other, apart]);
        after[other].push([body, apart]);
        rightmost[body] = Math.max(rightmost[body], rightmost[other] + apart);
      }
    }
    for (const body of [...order].reverse()) {
      for (const [other, apart] of after[body]) {
        leftmost[body] = Math.min(leftmost[body], leftmost[other] - apart);
      }
    }
    at = all.map(body => (leftmost[body] + rightmost[body]) / 2);
    const attached = all.map(() => []);
    for (const [one, here, other, there, weight] of segments) {
      attached[one].push([other, there - here, weight]);
      attached[other].push([one, here - there, weight]);
    }

    // The outer limits.
    let low = Infinity, high = -Infinity;
    for (const body of all) {
      low = Math.min(low, at[body] - bodies[body].left);
      high = Math.max(high, at[body] + bodies[body].right);
    }
    const more = MAX_WIDENING * (high - low);
    low -= more;
    high += more;

    // The distance of a body from the outer limit on one side.
    function distanceToLimit(body, sign) {
      return sign < 0 ? at[body] - bodies[body].left - low : high - at[body] - bodies[body].right;
    }

    // The moves that would put a group in line with its segments, with their weights.
    function requestsOf(moving) {
      const requests = [];
      for (const body of moving) {
        for (const [other, offset, weight] of attached[body]) {
          if (moving.size > 1 && moving.has(other)) continue;
          requests.push([at[other] + offset - at[body], weight]);
        }
      }
      return requests;
    }

    // The best move of a group, for short lines with few bends.
    function bestMove(moving) {
      const requests = requestsOf(moving);
      if (requests.length === 1) return requests[0][0];
      return requests.length > MAX_BEND_EDGES ? median(requests) : cheapest(requests);
    }

    // Move a group, and mark the bodies that may move next.
    let pending = new Set(order);
    function move(moving, distance) {
      for (const body of moving) {
        at[body] += distance;
        for (const neighbor of [before[body], after[body], attached[body]]) {
          for (const [other] of neighbor) pending.add(other);
        }
      }
    }

    // The free space of a group on one side: up to its neighbors, up to them or the outer limit,
    // and the distance of each neighbor.
    function freeSpace(moving, beside, sign) {
      const neighbors = [];
      let least = Infinity, free = Infinity;
      for (const body of moving) {
        free = Math.min(free, distanceToLimit(body, sign));
        for (const [other, apart] of beside[body]) {
          if (moving.has(other)) continue;
          const distance = Math.abs(at[body] - at[other]) - apart;
          neighbors.push([distance, other]);
          if (distance < least) least = distance;
        }
      }
      least = Math.max(least, 0);
      return [least, Math.min(least, free), neighbors];
    }

    // Move a group to one side, with blocking neighbors as long as all of them improve.
    function pull(group, beside, sign) {
      const moving = new Set(group);
      for (let time = 0; time < MAX_PUSHES; time++) {
        const wanted = sign * bestMove(moving);
        if (!(wanted >= MIN_MOVE)) return;
        const [least, most, neighbors] = freeSpace(moving, beside, sign);
        const space = Math.max(most, 0);
        if (space > 0) move(moving, sign * Math.min(wanted, space));
        if (wanted <= space) return;
        for (const [distance, other] of neighbors) if (distance <= least) moving.add(other);
      }
    }

    function pullAll(groups) {
      for (const group of groups) pull(group, before, -1);
      for (const group of [...groups].reverse()) pull(group, after, 1);
    }

    // Move each group to the best of all reachable positions for its lines.
    function straighten(groups) {
      for (const group of groups) {
        const moving = new Set(group), requests = requestsOf(moving);
        if (requests.length < 2 || requests.length > MAX_BEND_EDGES) continue;
        const [, low] = freeSpace(moving, before, -1), [, high] = freeSpace(moving, after, 1);
        const distance = cheapest(requests, -low, high);
        if (Math.abs(distance) >= MIN_MOVE) move(moving, distance);
      }
    }

    // The bodies in groups that some segments connect, each from left to right.
    function connectedBy(some) {
      const leader = [...all];
      const root = body => {
        while (leader[body] !== body) body = leader[body] = leader[leader[body]];
        return body;
      };
      for (const [one, , other] of some) leader[root(one)] = root(other);
      return [...Map.groupBy(order, root).values()];
    }

    // The segments that are in line, but for at most some points.
    const aligned = most => segments.filter(([one, here, other, there, weight]) =>
      weight >= 1 && Math.abs(at[one] + here - at[other] - there) <= most);

    // Two and more bodies that are attached and in line, but for at most some points.
    const joined = most => connectedBy(aligned(most)).filter(group => group.length > 1);

    // Move a group by a distance if there is free space.
    function moveIfFree(group, distance) {
      const [space] = freeSpace(group, distance < 0 ? before : after, distance < 0 ? -1 : 1);
      if (Math.abs(distance) > space) return false;
      move(group, distance);
      return true;
    }

    // The distance of the end of equal branches to the middle between them.
    function toMiddle(end, members) {
      const found = attached[end].filter(([other]) => members.includes(other))
        .map(([other, offset]) => at[other] + offset - at[end]);
      return (Math.min(...found) + Math.max(...found)) / 2;
    }

    // Move equal branches so that their fork and their join are in the middle between them; if
    // there is no space for that, or a straight line would bend, move the fork and the join.
    function center() {
      const cut = new Set(branches.flatMap(([ends, members]) =>
        ends.flatMap(end => members.flatMap(each => [`${end},${each}`, `${each},${end}`]))));
      const level = aligned(MIN_MOVE).filter(([one, , other]) => !cut.has(`${one},${other}`));
      const groups = connectedBy(level), groupOf = new Map(), settled = new Set();
      for (const group of groups) for (const body of group) groupOf.set(body, group);
      for (const [ends, members] of branches) {
        const inside = new Set(members.map(each => groupOf.get(each)));
        const outside = new Set(ends.map(each => groupOf.get(each)));
        const moves = ends.map(end => toMiddle(end, members));
        const differ = Math.max(...moves) - Math.min(...moves) >= MIN_MOVE;
        if (differ || [...outside].some(group => inside.has(group))) continue;
        const staysStraight = body => attached[body].every(([other, offset]) =>
          Math.abs(at[other] + offset - at[body]) >= MIN_MOVE ||
          inside.has(groupOf.get(other)) || outside.has(groupOf.get(other)));
        const moved = (chosen, distance) => {
          const moving = [...chosen].flat();
          return ![...chosen].some(group => settled.has(group)) && moving.every(staysStraight) &&
            moveIfFree(new Set(moving), distance);
        };
        if (!moved(inside, -moves[0])) moved(outside, moves[0]);
        for (const group of [...inside, ...outside]) settled.add(group);
      }
    }

    // Move a group to one side up to its neighbors, if it has any there.
    function close(group, beside, sign) {
      const moving = new Set(group), [space, , neighbors] = freeSpace(moving, beside, sign);
      if (neighbors.length) move(moving, sign * space);
    }

    // Move each group that no segment connects to the largest group next to that group.
    function gather() {
      const groups = connectedBy(segments);
      if (groups.length < 2) return;
      const main = groups.reduce((most, each) => each.length > most.length ? each : most);
      const mean = group => group.reduce((sum, body) => sum + at[body], 0) / group.length;
      const means = new Map(groups.map(group => [group, mean(group)]));
      groups.sort((a, b) => means.get(a) - means.get(b));
      const place = groups.indexOf(main);
      for (const group of groups.slice(place + 1)) close(group, before, -1);
      for (const group of groups.slice(0, place).reverse()) close(group, after, 1);
    }

    for (let round = 0; round < COMPACTION_PASSES; round++) {
      const start = [...at], single = order.filter(body => pending.has(body));
      pending = new Set();
      pullAll(single.map(body => [body]));
      pullAll(joined(MIN_MOVE));
      pullAll(joined(GROUP_DISTANCE));
      if (at.every((here, body) => here === start[body])) break;
    }
    straighten(order.map(body => [body]));
    straighten(joined(MIN_MOVE));
    if (branches.length) center();
    gather();
    return at;
  };
};
