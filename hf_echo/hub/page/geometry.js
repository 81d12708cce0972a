// Nearest vectors and the plane of two principal components. Vectors are Float32Arrays of length 1.

/** The k vectors with the largest cosine to `query`: [{index, cosine}], the largest first. */
export function nearest(query, vectors, k) {
  const all = vectors.map((vector, index) => ({ index, cosine: dot(query, vector) }));
  return all.sort((a, b) => b.cosine - a.cosine || a.index - b.index).slice(0, k);
}

/** The function that puts a vector on the plane of the two principal components of `vectors`, as [x, y]. */
export function principalPlane(vectors) {
  const mean = new Float64Array(vectors[0].length);
  for (const vector of vectors) vector.forEach((value, i) => (mean[i] += value / vectors.length));
  const centre = (vector) => Float64Array.from(vector, (value, i) => value - mean[i]);
  const rows = vectors.map(centre);
  const axes = [];
  while (axes.length < 2) {
    // Power iteration: an axis that is multiplied by the covariance turns towards the largest component.
    let axis = unit(without(rows.reduce((a, b) => (dot(a, a) >= dot(b, b) ? a : b)), axes));
    for (let step = 0; step < 500; step++) {
      const next = new Float64Array(axis.length);
      for (const row of rows) {
        const weight = dot(row, axis);
        row.forEach((value, i) => (next[i] += weight * value));
      }
      const turned = unit(without(next, axes));
      const change = 1 - dot(axis, turned);
      axis = turned;
      if (change < 1e-12) break;
    }
    axes.push(axis);
  }
  return (vector) => axes.map((axis) => dot(centre(vector), axis));
}

/** Groups of vectors: each is near, by at least `close`, to the vector that began its group. Lists of indices. */
export function clusters(vectors, close) {
  const groups = [];
  vectors.forEach((vector, index) => {
    const near = groups.find((group) => dot(vectors[group[0]], vector) >= close);
    if (near) near.push(index);
    else groups.push([index]);
  });
  return groups;
}

function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

/** A vector without its parts along `axes`. */
function without(vector, axes) {
  return axes.reduce((rest, axis) => {
    const along = dot(rest, axis);
    return rest.map((value, i) => value - along * axis[i]);
  }, vector);
}

function unit(vector) {
  const length = Math.sqrt(dot(vector, vector)) || 1;
  return vector.map((value) => value / length);
}
