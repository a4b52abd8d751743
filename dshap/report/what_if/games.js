/* Models and their exact Shapley values for one row.  Each kind makes a function x -> {prediction, base, phi}:
   x has a number for each column, NaN where it is missing; phi[output][player]. */
window.dshapGames = (function () {
  "use strict";

  /* A typed array from base64 text; lists and objects of them likewise. */
  function unpacked(content) {
    if (Array.isArray(content)) return content.map(unpacked);
    if (typeof content.data === "string") {
      const bytes = Uint8Array.from(atob(content.data), (each) => each.charCodeAt(0));
      return new window[content.type + "Array"](bytes.buffer);
    }
    return Object.fromEntries(Object.entries(content).map(([name, each]) => [name, unpacked(each)]));
  }

  /* Points t and weights of the Gauss-Legendre rule with q points on [0, 1]. */
  function legendre(q) {
    const points = new Float64Array(q);
    const weights = new Float64Array(q);
    for (let i = 0; i < q; i++) {
      let x = Math.cos((Math.PI * (i + 0.75)) / (q + 0.5));
      let slope = 1;
      for (let step = 0; step < 60; step++) {
        let before = 1;
        let value = x;
        for (let n = 2; n <= q; n++) [before, value] = [value, ((2 * n - 1) * x * value - (n - 1) * before) / n];
        slope = (q * (x * value - before)) / (x * x - 1);
        const move = value / slope;
        x -= move;
        if (Math.abs(move) < 1e-16) break;
      }
      points[i] = (1 - x) / 2;
      weights[i] = 1 / ((1 - x * x) * slope * slope);
    }
    return { points, weights };
  }

  const zeros = (outputs, players) => Array.from({ length: outputs }, () => new Float64Array(players));

  /* phi = M (x - mean), M (players, columns, outputs). */
  function linear({ players, columns }, { matrix, mean, base }) {
    const k = base.length;
    const d = players.length;
    const c = columns.length;
    return (x) => {
      const phi = zeros(k, d);
      const prediction = Float64Array.from(base);
      for (let i = 0; i < d; i++) {
        for (let j = 0; j < c; j++) {
          for (let o = 0; o < k; o++) phi[o][i] += matrix[(i * c + j) * k + o] * (x[j] - mean[j]);
        }
      }
      for (let o = 0; o < k; o++) prediction[o] += phi[o].reduce((sum, each) => sum + each, 0);
      return { prediction, base, phi };
    };
  }

  const SQUARE = 0;
  const MATERN32 = 2;
  const MATERN52 = 3;
  const DIFFERENT = 4;

  function factor(kind, rate, x, z) {
    if (kind === DIFFERENT) return x === z ? 1 : Math.exp(rate);
    const gap = Math.abs(x - z);
    if (kind === SQUARE) return Math.exp(rate * gap * gap);
    const far = rate * gap;
    if (kind === MATERN32) return (1 - far) * Math.exp(far);
    if (kind === MATERN52) return (1 - far + (far * far) / 3) * Math.exp(far);
    return Math.exp(far);
  }

  /* The terms of all parts one after the other: factors (r, d + 1) of the players and, last, of the columns of no player. */
  function kernelTerms({ players, player, columns }, parts, outputs) {
    const d = players.length;
    const c = columns.length;
    const r = parts.reduce((sum, part) => sum + part.weights.length / outputs, 0);
    const weights = new Float64Array(r * outputs);
    let at = 0;
    for (const part of parts) {
      weights.set(part.weights, at);
      at += part.weights.length;
    }
    function factorsOf(row) {
      const found = new Float64Array((d + 1) * r).fill(1);
      let first = 0;
      for (const { landmarks, kinds, rates } of parts) {
        const n = landmarks.length / c;
        for (let t = 0; t < n; t++) {
          for (let j = 0; j < c; j++) {
            const owner = player[j] < 0 ? d : player[j];
            found[(first + t) * (d + 1) + owner] *= factor(kinds[j], rates[j], row[j], landmarks[t * c + j]);
          }
        }
        first += n;
      }
      return found;
    }
    return { d, r, weights, factorsOf };
  }

  function kernelPrediction({ d, r, weights }, factors, intercept) {
    const k = intercept.length;
    const prediction = Float64Array.from(intercept);
    for (let t = 0; t < r; t++) {
      let product = 1;
      for (let i = 0; i <= d; i++) product *= factors[t * (d + 1) + i];
      for (let o = 0; o < k; o++) prediction[o] += weights[t * k + o] * product;
    }
    return prediction;
  }

  /* Product games of every landmark and background row, integrated over t: exact with half as many points as players. */
  function quadrature(model, { parts, intercept, base, background }) {
    const k = intercept.length;
    const c = model.columns.length;
    const terms = kernelTerms(model, parts, k);
    const { d, r, weights } = terms;
    const b = background.length / c;
    const others = [];
    for (let row = 0; row < b; row++) others.push(terms.factorsOf(background.subarray(row * c, (row + 1) * c)));
    const rule = legendre(Math.max(1, Math.ceil(d / 2)));
    const q = rule.points.length;
    const factors = new Float64Array(d);
    const integral = new Float64Array(d);
    const before = new Float64Array(d);
    return (x) => {
      const own = terms.factorsOf(x);
      const phi = zeros(k, d);
      for (const other of others) {
        for (let t = 0; t < r; t++) {
          const first = t * (d + 1);
          integral.fill(0);
          for (let p = 0; p < q; p++) {
            const at = rule.points[p];
            // products of the factors before and behind each player
            let below = rule.weights[p] * other[first + d];
            for (let i = 0; i < d; i++) {
              factors[i] = at * own[first + i] + (1 - at) * other[first + i];
              before[i] = below;
              below *= factors[i];
            }
            let behind = 1;
            for (let i = d - 1; i >= 0; i--) {
              integral[i] += before[i] * behind;
              behind *= factors[i];
            }
          }
          for (let i = 0; i < d; i++) {
            const share = ((own[first + i] - other[first + i]) * integral[i]) / b;
            for (let o = 0; o < k; o++) phi[o][i] += weights[t * k + o] * share;
          }
        }
      }
      return { prediction: kernelPrediction(terms, own, intercept), base, phi };
    };
  }

  /* All coalitions: player i is bit i of a coalition's number; means (2^d, r) are of the absent players' factors. */
  function subsets(model, { parts, intercept, base, means }) {
    const k = intercept.length;
    const terms = kernelTerms(model, parts, k);
    const { d, r, weights } = terms;
    const all = 1 << d;
    const size = new Uint8Array(all);
    for (let s = 1; s < all; s++) size[s] = size[s & (s - 1)] + 1;
    const share = new Float64Array(d);
    share[0] = 1 / d;
    for (let n = 1; n < d; n++) share[n] = (share[n - 1] * n) / (d - n);
    return (x) => {
      const own = terms.factorsOf(x);
      const products = new Float64Array(all * r);
      const values = zeros(k, all);
      for (let s = 0; s < all; s++) {
        const i = 31 - Math.clz32(s & -s);
        const less = (s & (s - 1)) * r;
        for (let t = 0; t < r; t++) {
          const product = s ? products[less + t] * own[t * (d + 1) + i] : own[t * (d + 1) + d];
          products[s * r + t] = product;
          for (let o = 0; o < k; o++) values[o][s] += weights[t * k + o] * product * means[s * r + t];
        }
      }
      const prediction = kernelPrediction(terms, own, intercept);
      const phi = zeros(k, d);
      for (let o = 0; o < k; o++) {
        for (let s = 0; s < all; s++) values[o][s] += intercept[o];
        values[o][0] = base[o];
        values[o][all - 1] = prediction[o];
        for (let s = 0; s < all; s++) {
          for (let i = 0; i < d; i++) {
            if (!(s & (1 << i))) phi[o][i] += share[size[s]] * (values[o][s | (1 << i)] - values[o][s]);
          }
        }
      }
      return { prediction, base, phi };
    };
  }

  const kernel = (model, arrays) => (arrays.background ? quadrature : subsets)(model, arrays);

  const NEAR_ZERO = 1;
  const ZERO_MISSING = 2;
  const CATEGORY = 4;
  const VALUE = 5;
  const NUMBER = 0;
  const ZERO = Math.fround(1e-35);
  const MISSING = -1;
  const LEAST_SHARE = 1e-280;

  /* A value as the library reads it; NaN where it is missing. */
  function read(value, kind, { isSingle, missing }) {
    let x = isSingle ? Math.fround(value) : value;
    if (missing !== null && x === (isSingle ? Math.fround(missing) : missing)) x = NaN;
    if (kind === CATEGORY) return isSingle && x < 0 ? x : Math.trunc(x);
    if (kind === NUMBER || kind === VALUE) return x;
    const isZero = Math.abs(x) <= ZERO || (Number.isNaN(x) && kind !== NEAR_ZERO);
    return isZero ? (kind === ZERO_MISSING ? NaN : 0) : x;
  }

  /* The number of thresholds from `start` to `stop`, which increase, that are smaller than x; 0 for NaN. */
  function smaller(thresholds, start, stop, x) {
    let low = start;
    let high = stop;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (thresholds[middle] < x) low = middle + 1;
      else high = middle;
    }
    return low - start;
  }

  /* Path-dependent values: each leaf is a product of a factor a player, 1 or 0 where it is present, the share of
     the training weight where it is absent; a walk down carries the products, up the sums of leaves. */
  function trees({ players, facts }, nodes) {
    const { first, output, right, code, place, set, sets, missingLeft, player, weight, leaves, columns, kinds, thresholds, starts, margins, base, positions, signs } = nodes;
    const n = code.length;
    const nTrees = first.length - 1;
    const wide = facts.setWidth;
    const nValues = leaves.length / code.reduce((sum, each) => sum + (each < 0), 0);
    const k = margins.length;
    const leafOf = new Int32Array(n);
    const before = new Int32Array(n).fill(-1);
    const share = new Float64Array(n).fill(1);
    const passed = new Uint8Array(n);
    const rules = [];
    let nLeaves = 0;
    for (let tree = 0; tree < nTrees; tree++) rules.push(prepare(tree));

    /* Shares and earlier decisions of the same player, and the rule for the most players of a path. */
    function prepare(tree) {
      let most = 1;
      const visit = (node, path, count) => {
        if (code[node] < 0) {
          leafOf[node] = nLeaves++;
          most = Math.max(most, count);
          return;
        }
        const own = player[node];
        const earlier = path.has(own) ? path.get(own) : -1;
        for (const child of [node + 1, node + right[node]]) {
          const part = weight[node] > 0 ? weight[child] / weight[node] : 0.5;
          before[child] = earlier;
          share[child] = Math.max(part * (earlier < 0 ? 1 : share[earlier]), LEAST_SHARE);
          visit(child, new Map(path).set(own, child), count + (earlier < 0));
        }
      };
      visit(first[tree], new Map(), 0);
      return legendre(Math.min(32, Math.ceil(most / 2)));
    }

    function goesLeft(node, codes) {
      const own = codes[code[node]];
      if (set[node] >= 0) return sets[set[node] * wide + own] === 1;
      return own === MISSING ? missingLeft[node] === 1 : own <= place[node];
    }

    function codesOf(x) {
      return Array.from(columns, (column, c) => {
        const value = read(x[column] >= facts.known[column] ? NaN : x[column], kinds[c], facts);
        const at = smaller(thresholds, starts[c], starts[c + 1], value);
        if (kinds[c] < CATEGORY) return Number.isNaN(value) ? MISSING : at;
        const size = starts[c + 1] - starts[c];
        return at < size && thresholds[starts[c] + at] === value ? at : size + Number.isNaN(value);
      });
    }

    function chosen(values) {
      return positions ? Array.from(positions, (from, o) => values[from].map((each) => signs[o] * each)) : values;
    }

    return (x) => {
      const codes = codesOf(x);
      const phi = zeros(k, players.length);
      const sums = zeros(k, 1);
      margins.forEach((each, o) => (sums[o][0] = each));
      for (let tree = 0; tree < nTrees; tree++) {
        const { points, weights } = rules[tree];
        const q = points.length;
        const to = output[tree];
        const visit = (node, products) => {
          if (code[node] < 0) {
            const found = new Float64Array(nValues * q);
            for (let v = 0; v < nValues; v++) {
              const worth = leaves[leafOf[node] * nValues + v];
              for (let p = 0; p < q; p++) found[v * q + p] = worth * weights[p] * products[p];
            }
            return found;
          }
          const total = new Float64Array(nValues * q);
          const left = goesLeft(node, codes);
          for (const child of [node + 1, node + right[node]]) {
            const earlier = before[child];
            const was = earlier < 0 || passed[earlier] === 1;
            const is = was && left === (child === node + 1);
            passed[child] = is;
            const r = share[child];
            const shareBefore = earlier < 0 ? 1 : share[earlier];
            const below = new Float64Array(q);
            const terms = new Float64Array(q);
            for (let p = 0; p < q; p++) {
              const t = points[p];
              const scale = 1 / (t + (1 - t) * shareBefore);
              const whole = t + (1 - t) * r;
              const gone = (1 - shareBefore) * scale;
              below[p] = products[p] * (is ? whole * scale : was ? (1 - t) * r * scale : r / shareBefore);
              terms[p] = is ? (1 - r) / whole - gone : was ? -1 / (1 - t) - gone : 0;
            }
            const found = visit(child, below);
            for (let v = 0; v < nValues; v++) {
              for (let p = 0; p < q; p++) {
                phi[to + v][player[node]] += terms[p] * found[v * q + p];
                total[v * q + p] += found[v * q + p];
              }
            }
          }
          return total;
        };
        visit(first[tree], new Float64Array(q).fill(1));
        let node = first[tree];
        while (code[node] >= 0) node = goesLeft(node, codes) ? node + 1 : node + right[node];
        for (let v = 0; v < nValues; v++) sums[to + v][0] += leaves[leafOf[node] * nValues + v];
      }
      return { prediction: Float64Array.from(chosen(sums), (each) => each[0]), base, phi: chosen(phi) };
    };
  }

  const KINDS = { linear, kernel, trees };

  /* The function of a model, from its record. */
  return (model) => KINDS[model.kind](model, unpacked(model.arrays));
})();
