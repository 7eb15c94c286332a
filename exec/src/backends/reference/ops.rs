//! The operators, each from its definition.

use super::proto::Node;
use crate::backends::reference::array::Array;

type Made = Result<Array, String>;

fn int(node: &Node, name: &str, otherwise: i64) -> i64 {
    node.attribute.iter().find(|a| a.name == name).map_or(otherwise, |a| a.i)
}

fn float(node: &Node, name: &str, otherwise: f32) -> f32 {
    node.attribute.iter().find(|a| a.name == name).map_or(otherwise, |a| a.f)
}

fn ints(node: &Node, name: &str, otherwise: &[i64]) -> Vec<i64> {
    node.attribute.iter().find(|a| a.name == name).map_or(otherwise.to_vec(), |a| a.ints.clone())
}

/// A position from the start, given one that may count from the end.
fn axis(of: i64, rank: usize) -> Result<usize, String> {
    let from_start = if of < 0 { of + rank as i64 } else { of };
    usize::try_from(from_start).ok().filter(|&axis| axis <= rank).ok_or(format!("there is no axis {of}"))
}

/// Runs a node; only its first output is made.
pub(super) fn run(node: &Node, given: &[Option<&Array>], version: i64) -> Made {
    let input = |i: usize| given.get(i).copied().flatten().ok_or(format!("input {i} is missing"));
    let x = || input(0);
    match node.op_type.as_str() {
        "Relu" => Ok(x()?.map(|v| v.max(0.0))),
        "Sigmoid" => Ok(x()?.map(|v| 1.0 / (1.0 + (-v).exp()))),
        "Identity" | "Dropout" => Ok(x()?.clone()),
        "Constant" => constant(node),
        "ConstantOfShape" => constant_of_shape(node, x()?),
        "Add" | "Sum" | "Mul" => {
            let multiply = node.op_type == "Mul";
            let join = |a: f32, b: f32| if multiply { a * b } else { a + b };
            (1..given.len()).try_fold(x()?.clone(), |sum, i| broadcast(&sum, input(i)?, join))
        }
        "Conv" => convolve(node, x()?, input(1)?, given.get(2).copied().flatten()),
        "MaxPool" | "AveragePool" => pool(node, x()?),
        "GlobalAveragePool" => {
            let [n, c, h, w] = x()?.image()?;
            let mean =
                |plane: &[f32]| plane.iter().map(|&v| f64::from(v)).sum::<f64>() as f32 / (h * w) as f32;
            Ok(Array::floats(vec![n, c, 1, 1], x()?.floats.chunks(h * w).map(mean).collect()))
        }
        "BatchNormalization" => {
            let [scale, shift, mean, variance] = [input(1)?, input(2)?, input(3)?, input(4)?];
            let epsilon = f64::from(float(node, "epsilon", 1e-5));
            per_channel(x()?, |value, c| {
                let at = |a: &Array| f64::from(a.floats[c]);
                ((f64::from(value) - at(mean)) / (at(variance) + epsilon).sqrt() * at(scale) + at(shift))
                    as f32
            })
        }
        "LRN" => local_response(node, x()?),
        "Concat" => {
            let parts: Vec<&Array> = (0..given.len()).map(input).collect::<Result<_, _>>()?;
            concat(&parts, axis(int(node, "axis", 1), parts[0].shape.len())?)
        }
        "Reshape" => reshape(x()?, &input(1)?.whole),
        "Flatten" => {
            let (rows, columns) = x()?.shape.split_at(axis(int(node, "axis", 1), x()?.shape.len())?);
            x()?.reshaped(vec![rows.iter().product(), columns.iter().product()])
        }
        "Unsqueeze" if version < 13 => {
            let mut shape = x()?.shape.clone();
            for &at in &ints(node, "axes", &[]) {
                shape.insert(axis(at, shape.len() + 1)?, 1);
            }
            x()?.reshaped(shape)
        }
        "Transpose" => transpose(node, x()?),
        "Gemm" => multiply_matrices(node, x()?, input(1)?, given.get(2).copied().flatten()),
        "MatMul" => multiply_matrices(&Node::default(), x()?, input(1)?, None),
        "Softmax" => {
            // Before version 13 everything from the axis on was one row.
            let (rank, otherwise) = (x()?.shape.len(), if version < 13 { 1 } else { -1 });
            let at = axis(int(node, "axis", otherwise), rank)?;
            if version >= 13 && at + 1 != rank {
                return Err("only the last axis is known".into());
            }
            let row: usize = x()?.shape[at..].iter().product();
            let floats = x()?.floats.chunks(row.max(1)).flat_map(softmax).collect();
            Ok(Array::floats(x()?.shape.clone(), floats))
        }
        _ => Err("this operator is not known".into()),
    }
}

fn constant_of_shape(node: &Node, shape: &Array) -> Made {
    let shape = sizes(shape)?;
    let filler = match node.attribute.first().and_then(|a| a.t.as_ref()) {
        Some(tensor) => tensor.array()?,
        None => Array::floats(vec![1], vec![0.0]),
    };
    let value = *filler.floats.first().ok_or("it is filled with whole numbers")?;
    let count = shape.iter().product();
    Ok(Array::floats(shape, vec![value; count]))
}

/// A size of 0 is copied, and one of -1 takes what is left.
fn reshape(x: &Array, wanted: &[i64]) -> Made {
    let fixed = |(i, &size): (usize, &i64)| match size {
        0 => x.shape.get(i).copied().ok_or("a size is copied from nothing".to_owned()),
        -1 => Ok(1),
        size => usize::try_from(size).map_err(|_| format!("a size of {size}")),
    };
    let mut shape: Vec<usize> = wanted.iter().enumerate().map(fixed).collect::<Result<_, _>>()?;
    if let Some(open) = wanted.iter().position(|&size| size == -1) {
        shape[open] = x.len() / shape.iter().product::<usize>().max(1);
    }
    x.reshaped(shape)
}

fn constant(node: &Node) -> Made {
    let value = node.attribute.iter().find(|a| a.name == "value").and_then(|a| a.t.as_ref());
    value.ok_or("only tensors are known")?.array()
}

fn sizes(shape: &Array) -> Result<Vec<usize>, String> {
    shape.whole.iter().map(|&size| usize::try_from(size).map_err(|_| format!("a size of {size}"))).collect()
}

fn softmax(row: &[f32]) -> Vec<f32> {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f64> = row.iter().map(|&v| f64::from(v - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| (power / sum) as f32).collect()
}

fn per_channel(x: &Array, f: impl Fn(f32, usize) -> f32) -> Made {
    let channels = *x.shape.get(1).ok_or("there are no channels")?;
    let plane: usize = x.shape[2..].iter().product();
    let value = |(i, &value): (usize, &f32)| f(value, i / plane % channels);
    Ok(Array::floats(x.shape.clone(), x.floats.iter().enumerate().map(value).collect()))
}

/// Sizes of 1, and sizes that are missing in front, are repeated.
fn broadcast(a: &Array, b: &Array, join: impl Fn(f32, f32) -> f32) -> Made {
    let rank = a.shape.len().max(b.shape.len());
    let size = |shape: &[usize], i: usize| (i + shape.len()).checked_sub(rank).map_or(1, |i| shape[i]);
    let mut shape = Vec::with_capacity(rank);
    for i in 0..rank {
        let (p, q) = (size(&a.shape, i), size(&b.shape, i));
        if p != q && p != 1 && q != 1 {
            return Err(format!("{:?} and {:?} do not go together", a.shape, b.shape));
        }
        shape.push(p.max(q));
    }
    let place = |of: &[usize], mut flat: usize| {
        let (mut place, mut step) = (0, 1);
        for i in (0..rank).rev() {
            let (at, own) = (flat % shape[i], size(of, i));
            flat /= shape[i];
            place += if own == 1 { 0 } else { at * step };
            step *= own;
        }
        place
    };
    let count: usize = shape.iter().product();
    let value = |flat| join(a.floats[place(&a.shape, flat)], b.floats[place(&b.shape, flat)]);
    let floats = (0..count).map(value).collect();
    Ok(Array::floats(shape, floats))
}

/// How a window moves over an image.
struct Window {
    kernel: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    /// Rows above and columns to the left that are not there.
    before: [usize; 2],
    out: [usize; 2],
}

impl Window {
    fn new(node: &Node, kernel: [usize; 2], image: [usize; 2]) -> Result<Window, String> {
        let pair = |name: &str, otherwise: i64| {
            let list = ints(node, name, &[otherwise; 2]);
            let list: Vec<usize> = list.iter().map(|&v| usize::try_from(v).unwrap_or(0)).collect();
            <[usize; 2]>::try_from(list).map_err(|_| format!("`{name}` is not for two dimensions"))
        };
        let (stride, dilation) = (pair("strides", 1)?, pair("dilations", 1)?);
        let mode = node.attribute.iter().find(|a| a.name == "auto_pad").map_or(&b"NOTSET"[..], |a| &a.s);
        if !matches!(mode, b"NOTSET" | b"VALID" | b"") {
            return Err("`auto_pad` is not known".into());
        }
        let pads = ints(node, "pads", &[0; 4]);
        let pads: Vec<usize> = pads.iter().map(|&v| usize::try_from(v).unwrap_or(0)).collect();
        let [top, left, bottom, right] =
            <[usize; 4]>::try_from(pads).map_err(|_| "`pads` is not for two dimensions")?;
        let up = int(node, "ceil_mode", 0) == 1;
        let size = |i: usize, around: usize| {
            let reach = (kernel[i] - 1) * dilation[i] + 1;
            let room = (image[i] + around).checked_sub(reach).ok_or("the window is larger than the image")?;
            Ok::<usize, String>(if up { room.div_ceil(stride[i]) } else { room / stride[i] } + 1)
        };
        let out = [size(0, top + bottom)?, size(1, left + right)?];
        Ok(Window { kernel, stride, dilation, before: [top, left], out })
    }

    /// The positions in the image that the window at `y`, `x` covers, and which of its own they are.
    fn covers(&self, y: usize, x: usize, image: [usize; 2]) -> impl Iterator<Item = (usize, usize)> + '_ {
        let at = move |i: usize, out: usize, k: usize| {
            let place = (out * self.stride[i] + k * self.dilation[i]).checked_sub(self.before[i])?;
            Some(place).filter(|&place| place < image[i])
        };
        (0..self.kernel[0]).flat_map(move |ky| {
            (0..self.kernel[1]).filter_map(move |kx| {
                Some((at(0, y, ky)? * image[1] + at(1, x, kx)?, ky * self.kernel[1] + kx))
            })
        })
    }
}

fn convolve(node: &Node, x: &Array, filters: &Array, bias: Option<&Array>) -> Made {
    let ([n, c, h, w], [out, per_group, kh, kw]) = (x.image()?, filters.image()?);
    let groups = usize::try_from(int(node, "group", 1)).unwrap_or(1).max(1);
    if per_group * groups != c || out % groups != 0 {
        return Err(format!("filters {:?} do not fit {:?} in {groups} groups", filters.shape, x.shape));
    }
    let window = Window::new(node, [kh, kw], [h, w])?;
    let [oh, ow] = window.out;
    // What each window covers is the same for every channel.
    let covered: Vec<Vec<(usize, usize)>> =
        (0..oh * ow).map(|place| window.covers(place / ow, place % ow, [h, w]).collect()).collect();
    let mut made = Vec::with_capacity(n * out * oh * ow);
    for image in 0..n {
        for filter in 0..out {
            let first = filter / (out / groups) * per_group;
            let start = bias.map_or(0.0, |bias| f64::from(bias.floats[filter]));
            let mut sums = vec![start; oh * ow];
            for channel in 0..per_group {
                let plane = &x.floats[(image * c + first + channel) * h * w..][..h * w];
                let kernel = &filters.floats[(filter * per_group + channel) * kh * kw..][..kh * kw];
                for (sum, covered) in sums.iter_mut().zip(&covered) {
                    let terms = covered.iter().map(|&(at, k)| f64::from(plane[at]) * f64::from(kernel[k]));
                    *sum += terms.sum::<f64>();
                }
            }
            made.extend(sums.into_iter().map(|sum| sum as f32));
        }
    }
    Ok(Array::floats(vec![n, out, oh, ow], made))
}

fn pool(node: &Node, x: &Array) -> Made {
    let [n, c, h, w] = x.image()?;
    let kernel: Vec<usize> =
        ints(node, "kernel_shape", &[]).iter().map(|&v| usize::try_from(v).unwrap_or(0)).collect();
    let kernel = <[usize; 2]>::try_from(kernel).map_err(|_| "`kernel_shape` is not for two dimensions")?;
    let window = Window::new(node, kernel, [h, w])?;
    let [oh, ow] = window.out;
    let all = int(node, "count_include_pad", 0) == 1;
    let mut made = Vec::with_capacity(n * c * oh * ow);
    for plane in x.floats.chunks(h * w) {
        for place in 0..oh * ow {
            let covered = window.covers(place / ow, place % ow, [h, w]).map(|(at, _)| plane[at]);
            made.push(if node.op_type == "MaxPool" {
                covered.fold(f32::NEG_INFINITY, f32::max)
            } else {
                let (count, sum) = covered.fold((0, 0.0), |(n, sum), v| (n + 1, sum + f64::from(v)));
                (sum / if all { (kernel[0] * kernel[1]) as f64 } else { f64::from(count) }) as f32
            });
        }
    }
    Ok(Array::floats(vec![n, c, oh, ow], made))
}

fn local_response(node: &Node, x: &Array) -> Made {
    let [_, c, h, w] = x.image()?;
    let size = usize::try_from(int(node, "size", 1)).unwrap_or(1);
    let (alpha, beta) = (f64::from(float(node, "alpha", 1e-4)), f64::from(float(node, "beta", 0.75)));
    let bias = f64::from(float(node, "bias", 1.0));
    let plane = h * w;
    let value = |i: usize| {
        let (image, channel, at) = (i / (c * plane), i / plane % c, i % plane);
        let from = channel.saturating_sub((size - 1) / 2);
        let to = (channel + size / 2).min(c - 1);
        let square = |other: usize| f64::from(x.floats[(image * c + other) * plane + at]).powi(2);
        let sum: f64 = (from..=to).map(square).sum();
        (f64::from(x.floats[i]) / (bias + alpha / size as f64 * sum).powf(beta)) as f32
    };
    Ok(Array::floats(x.shape.clone(), (0..x.floats.len()).map(value).collect()))
}

fn concat(parts: &[&Array], axis: usize) -> Made {
    let mut shape = parts[0].shape.clone();
    let unlike = |part: &&&Array| {
        let other = part.shape.iter().zip(&shape).enumerate().any(|(i, (a, b))| i != axis && a != b);
        part.shape.len() != shape.len() || other
    };
    if axis >= shape.len() || parts.iter().any(|part| unlike(&part)) {
        return Err("the parts do not go together".into());
    }
    shape[axis] = parts.iter().map(|part| part.shape[axis]).sum();
    let rows: usize = shape[..axis].iter().product();
    let row = |part: &Array| part.shape[axis..].iter().product::<usize>();
    let pieces =
        (0..rows).flat_map(|r| parts.iter().flat_map(move |part| &part.floats[r * row(part)..][..row(part)]));
    let floats = pieces.copied().collect();
    Ok(Array::floats(shape, floats))
}

fn transpose(node: &Node, x: &Array) -> Made {
    let rank = x.shape.len();
    let backwards: Vec<i64> = (0..rank as i64).rev().collect();
    let order = ints(node, "perm", &backwards);
    let order: Vec<usize> = order.iter().map(|&at| axis(at, rank)).collect::<Result<_, _>>()?;
    if order.len() != rank || order.iter().any(|&at| at >= rank) {
        return Err("`perm` does not fit".into());
    }
    let steps: Vec<usize> = (0..rank).map(|i| x.shape[i + 1..].iter().product()).collect();
    let shape: Vec<usize> = order.iter().map(|&at| x.shape[at]).collect();
    let value = |mut flat: usize| {
        let mut place = 0;
        for i in (0..rank).rev() {
            place += flat % shape[i] * steps[order[i]];
            flat /= shape[i];
        }
        x.floats[place]
    };
    let floats = (0..x.floats.len()).map(value).collect();
    Ok(Array::floats(shape, floats))
}

fn multiply_matrices(node: &Node, a: &Array, b: &Array, c: Option<&Array>) -> Made {
    let matrix = |array: &Array, turned: i64| match array.shape.as_slice() {
        &[rows, columns] if turned == 0 => Ok((rows, columns, columns, 1)),
        &[rows, columns] => Ok((columns, rows, 1, columns)),
        other => Err(format!("{other:?} is no matrix")),
    };
    let (rows, inner, row_step, step) = matrix(a, int(node, "transA", 0))?;
    let (other, columns, inner_step, column_step) = matrix(b, int(node, "transB", 0))?;
    if inner != other {
        return Err(format!("{:?} and {:?} cannot be multiplied", a.shape, b.shape));
    }
    let (alpha, beta) = (f64::from(float(node, "alpha", 1.0)), float(node, "beta", 1.0));
    let cell = |i: usize| {
        let (row, column) = (i / columns, i % columns);
        let term = |k: usize| {
            let (p, q) = (row * row_step + k * step, k * inner_step + column * column_step);
            f64::from(a.floats[p]) * f64::from(b.floats[q])
        };
        (alpha * (0..inner).map(term).sum::<f64>()) as f32
    };
    let product = Array::floats(vec![rows, columns], (0..rows * columns).map(cell).collect());
    c.map_or(Ok(product.clone()), |c| broadcast(&product, c, |product, c| product + beta * c))
}

#[cfg(test)]
mod tests {
    use super::super::proto::Attribute;
    use super::*;

    fn node(op: &str, attributes: &[(&str, i64, &[i64])]) -> Node {
        let attribute = |&(name, i, ints): &(&str, i64, &[i64])| Attribute {
            name: name.into(),
            i,
            ints: ints.to_vec(),
            ..Attribute::default()
        };
        Node { op_type: op.into(), attribute: attributes.iter().map(attribute).collect(), ..Node::default() }
    }

    fn grid(shape: &[usize]) -> Array {
        let count: usize = shape.iter().product();
        Array::floats(shape.to_vec(), (0..count).map(|i| i as f32).collect())
    }

    #[test]
    fn convolutions_and_pools_by_hand() {
        let ones = Array::floats(vec![1, 1, 2, 2], vec![1.0; 4]);
        let sums = run(&node("Conv", &[]), &[Some(&grid(&[1, 1, 3, 3])), Some(&ones)], 9).unwrap();
        assert_eq!(sums.floats, [8.0, 12.0, 20.0, 24.0]);
        let padded = node("Conv", &[("pads", 0, &[1, 1, 0, 0]), ("strides", 0, &[2, 2])]);
        let sums = run(&padded, &[Some(&grid(&[1, 1, 3, 3])), Some(&ones)], 9).unwrap();
        assert_eq!(sums.floats, [0.0, 3.0, 9.0, 24.0]);
        let most = node("MaxPool", &[("kernel_shape", 0, &[2, 2])]);
        assert_eq!(run(&most, &[Some(&grid(&[1, 1, 3, 3]))], 9).unwrap().floats, [4.0, 5.0, 7.0, 8.0]);
        let mean = node("AveragePool", &[("kernel_shape", 0, &[2, 2]), ("pads", 0, &[1, 1, 0, 0])]);
        assert_eq!(run(&mean, &[Some(&grid(&[1, 1, 2, 2]))], 9).unwrap().floats, [0.0, 0.5, 1.0, 1.5]);
    }

    #[test]
    fn groups_shapes_and_orders_by_hand() {
        let filters = Array::floats(vec![2, 1, 1, 1], vec![10.0, 100.0]);
        let grouped = node("Conv", &[("group", 2, &[])]);
        let made = run(&grouped, &[Some(&grid(&[1, 2, 1, 2])), Some(&filters)], 9).unwrap();
        assert_eq!(made.floats, [0.0, 10.0, 200.0, 300.0]);
        let turned = run(&node("Transpose", &[]), &[Some(&grid(&[2, 3]))], 9).unwrap();
        assert_eq!((turned.shape, turned.floats), (vec![3, 2], vec![0.0, 3.0, 1.0, 4.0, 2.0, 5.0]));
        let both = [Some(&grid(&[2, 1])), Some(&grid(&[2, 2]))].map(|array| array.cloned());
        let both: Vec<Option<&Array>> = both.iter().map(Option::as_ref).collect();
        assert_eq!(run(&node("Concat", &[]), &both, 9).unwrap().floats, [0.0, 0.0, 1.0, 1.0, 2.0, 3.0]);
        let shape = Array::whole(vec![2], vec![0, -1]);
        let flat = run(&node("Reshape", &[]), &[Some(&grid(&[2, 3, 2])), Some(&shape)], 9).unwrap();
        assert_eq!(flat.shape, [2, 6]);
    }
}
