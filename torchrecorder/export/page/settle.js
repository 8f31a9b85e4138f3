// Settle: move boxes and lines of a scope across the flow towards their connections, in the order of
// `at` in each row, as in layout/layered/compaction.py.

"use strict";

const createSettle = constants => {
  const { ROUNDS, PUSHED, NEAR, LEAST, BEND, FEW, WIDER } = constants;
  const { BOXES_APART, MIXED_APART, LINES_APART } = constants;

  // The cost of a move by `far`: lengths and bends of lines.
  function priceOf(asked, far) {
    let price = 0;
    for (const [wish, weight] of asked) {
      const off = Math.abs(wish - far);
      price += weight * (off + (off >= LEAST ? BEND : 0));
    }
    return price;
  }

  // The move with the lowest cost, among staying and all requested moves.
  function cheapest(asked, low = -Infinity, high = Infinity) {
    let best = 0, least = priceOf(asked, 0);
    for (const [far] of asked) {
      if (far < low || far > high) continue;
      const price = priceOf(asked, far) + LEAST;
      if (price < least) [best, least] = [far, price];
    }
    return best;
  }

  // The nearest position with the shortest lines (weighted median).
  function median(asked) {
    asked.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const half = asked.reduce((sum, each) => sum + each[1], 0) / 2;
    let sofar = 0;
    for (let place = 0; place < asked.length; place++) {
      sofar += asked[place][1];
      if (sofar > half) return asked[place][0];
      if (sofar === half) return Math.min(Math.max(0, asked[place][0]), asked[place + 1][0]);
    }
    return 0;
  }

  // Bodies are {first, last, left, right, box}, ties [one, here, other, there, weight].
  return (bodies, at, ties) => {
    const rightmost = [...at], leftmost = [...at];
    const all = bodies.map((_, body) => body);
    const order = [...all].sort((a, b) => at[a] - at[b] || a - b);
    const before = all.map(() => []), after = all.map(() => []), latest = new Map();
    for (const body of order) {
      const here = bodies[body], met = new Set();
      for (let row = here.first; row <= here.last; row++) {
        if (latest.has(row)) met.add(latest.get(row));
        latest.set(row, body);
      }
      for (const other of met) {
        const near = bodies[other];
        const mixed = near.box || here.box ? MIXED_APART : LINES_APART;
        const apart = near.box && here.box ? BOXES_APART : mixed;
        const room = near.right + apart + here.left;
        before[body].push([other, room]);
        after[other].push([body, room]);
        rightmost[body] = Math.max(rightmost[body], rightmost[other] + room);
      }
    }
    for (const body of [...order].reverse()) {
      for (const [other, room] of after[body]) {
        leftmost[body] = Math.min(leftmost[body], leftmost[other] - room);
      }
    }
    at = all.map(body => (leftmost[body] + rightmost[body]) / 2);
    const tied = all.map(() => []);
    for (const [one, here, other, there, weight] of ties) {
      tied[one].push([other, there - here, weight]);
      tied[other].push([one, here - there, weight]);
    }

    // The outer limits.
    let low = Infinity, high = -Infinity;
    for (const body of all) {
      low = Math.min(low, at[body] - bodies[body].left);
      high = Math.max(high, at[body] + bodies[body].right);
    }
    const more = WIDER * (high - low);
    low -= more;
    high += more;

    // How far a body is from there on one side.
    function freeOf(body, sign) {
      return sign < 0 ? at[body] - bodies[body].left - low : high - at[body] - bodies[body].right;
    }

    // The distances of a group to its ties, with weights.
    function askedOf(mine) {
      const asked = [];
      for (const body of mine) {
        for (const [other, off, weight] of tied[body]) {
          if (mine.size === 1 || !mine.has(other)) asked.push([at[other] + off - at[body], weight]);
        }
      }
      return asked;
    }

    // The best move of a group.
    function wishOf(mine) {
      const asked = askedOf(mine);
      if (asked.length === 1) return asked[0][0];
      return asked.length > FEW ? median(asked) : cheapest(asked);
    }

    // Move a group, and mark the bodies that may move next.
    let touched = new Set(order);
    function move(mine, far) {
      for (const body of mine) {
        at[body] += far;
        for (const near of [before[body], after[body], tied[body]]) {
          for (const [other] of near) touched.add(other);
        }
      }
    }

    // How far a group can move to one side: as for its neighbours, and at all; and these.
    function roomOf(mine, beside, sign) {
      const found = [];
      let least = Infinity, free = Infinity;
      for (const body of mine) {
        free = Math.min(free, freeOf(body, sign));
        for (const [other, room] of beside[body]) {
          if (mine.has(other)) continue;
          const between = Math.abs(at[body] - at[other]) - room;
          found.push([between, other]);
          if (between < least) least = between;
        }
      }
      least = Math.max(least, 0);
      return [least, Math.min(least, free), found];
    }

    // Move a group to one side, with blocking neighbours as long as all of them improve.
    function pull(group, beside, sign) {
      const mine = new Set(group);
      for (let time = 0; time < PUSHED; time++) {
        const wish = sign * wishOf(mine);
        if (!(wish >= LEAST)) return;
        const [least, most, found] = roomOf(mine, beside, sign), room = Math.max(most, 0);
        if (room > 0) move(mine, sign * Math.min(wish, room));
        if (wish <= room) return;
        for (const [between, other] of found) if (between <= least) mine.add(other);
      }
    }

    function pullAll(groups) {
      for (const group of groups) pull(group, before, -1);
      for (const group of [...groups].reverse()) pull(group, after, 1);
    }

    // Move each group to the best of all reachable positions for its lines.
    function straighten(groups) {
      for (const group of groups) {
        const mine = new Set(group), asked = askedOf(mine);
        if (asked.length < 2 || asked.length > FEW) continue;
        const far = cheapest(asked, -roomOf(mine, before, -1)[1], roomOf(mine, after, 1)[1]);
        if (Math.abs(far) >= LEAST) move(mine, far);
      }
    }

    // The bodies in groups that some ties connect, each from left to right.
    function tiedBy(some) {
      const leader = [...all];
      const found = body => {
        while (leader[body] !== body) body = leader[body] = leader[leader[body]];
        return body;
      };
      for (const [one, , other] of some) leader[found(one)] = found(other);
      const members = new Map();
      for (const body of order) {
        const key = found(body);
        if (!members.has(key)) members.set(key, []);
        members.get(key).push(body);
      }
      return [...members.values()];
    }

    // Two and more bodies that are tied and in line, but for at most some points.
    function joined(most) {
      const level = ties.filter(([one, here, other, there, weight]) =>
        weight >= 1 && Math.abs(at[one] + here - at[other] - there) <= most);
      return tiedBy(level).filter(group => group.length > 1);
    }

    // Move a group to one side as far as its neighbours allow, if it has any there.
    function close(group, beside, sign) {
      const mine = new Set(group), [room, , found] = roomOf(mine, beside, sign);
      if (found.length) move(mine, sign * room);
    }

    // Move what no tie connects to the largest group next to it.
    function gather() {
      const groups = tiedBy(ties);
      if (groups.length < 2) return;
      const main = groups.reduce((most, each) => each.length > most.length ? each : most);
      const mean = group => group.reduce((sum, body) => sum + at[body], 0) / group.length;
      const means = new Map(groups.map(group => [group, mean(group)]));
      groups.sort((a, b) => means.get(a) - means.get(b));
      const place = groups.indexOf(main);
      for (const group of groups.slice(place + 1)) close(group, before, -1);
      for (const group of groups.slice(0, place).reverse()) close(group, after, 1);
    }

    for (let round = 0; round < ROUNDS; round++) {
      const start = [...at], single = order.filter(body => touched.has(body));
      touched = new Set();
      pullAll(single.map(body => [body]));
      pullAll(joined(LEAST));
      pullAll(joined(NEAR));
      if (at.every((here, body) => here === start[body])) break;
    }
    straighten(order.map(body => [body]));
    straighten(joined(LEAST));
    gather();
    return at;
  };
};
