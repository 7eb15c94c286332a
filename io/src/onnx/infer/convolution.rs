//! Shapes of operators that slide a window over space: convolutions, pooling, and their opposites.
//!
//! Layouts are `N C spatial...` for data, `M C/group kernel...` for the weights of a convolution and
//! `C M/group kernel...` for those of a transposed one.

use super::call::{Call, Shape, Shapes, divided, plus, product, signed, size, times};
use divvy_core::units::counted_as;

/// The shapes of the outputs, if the operator is of this family.
pub(super) fn shapes(call: &Call) -> Option<Shapes> {
    Some(match call.operator() {
        "Conv" | "ConvInteger" | "DeformConv" => convolution(call, 1),
        "QLinearConv" => convolution(call, 3),
        "ConvTranspose" => transposed(call),
        "CausalConvWithState" => causal(call),
        "AveragePool" | "LpPool" => call.shape(0).and_then(|shape| Ok(vec![pool(call, shape)?])),
        "MaxPool" => {
            call.shape(0).and_then(|shape| pool(call, shape)).map(|shape| vec![shape.clone(), shape])
        }
        "GlobalAveragePool" | "GlobalLpPool" | "GlobalMaxPool" => {
            call.shape(0).and_then(|shape| Ok(vec![global(shape)?]))
        }
        "MaxUnpool" => unpool(call),
        "MaxRoiPool" => regions(call, call.ints("pooled_shape").unwrap_or_default()),
        "RoiAlign" => regions(call, &[call.int("output_height", 1), call.int("output_width", 1)]),
        "Col2Im" => columns(call),
        _ => return None,
    })
}

/// How a window slides along one axis.
#[derive(Clone, Copy)]
struct Slide {
    kernel: u64,
    stride: u64,
    dilation: u64,
    before: i64,
    after: i64,
}

impl Slide {
    /// How far the window reaches, gaps included.
    fn reach(self) -> Result<u64, String> {
        let gaps = self.kernel.checked_sub(1).ok_or("a window has no size")?;
        plus(times(gaps, self.dilation)?, 1)
    }

    /// Number of places along an axis of a given length.
    fn places(self, length: u64, ceil: bool) -> Result<u64, String> {
        let padded = i128::from(length) + i128::from(self.before) + i128::from(self.after);
        let room = padded - i128::from(self.reach()?);
        let stride = i128::from(self.stride);
        // Rounded up, one window may hang over the end.
        if room < 0 && !(ceil && -room < stride) {
            return Err(format!("a window of {} does not fit into {padded}", self.reach()?));
        }
        let mut steps = if ceil { (room + stride - 1) / stride } else { room / stride };
        // The last window must start inside the data or the padding before them.
        if ceil && steps > 0 && steps * stride >= i128::from(length) + i128::from(self.before) {
            steps -= 1;
        }
        u64::try_from(steps + 1).map_err(|_| "a size is out of range".to_owned())
    }
}

/// The attributes of a window of a given size, one slide for each axis.
fn slides(call: &Call, kernel: &[u64]) -> Result<Vec<Slide>, String> {
    let rank = kernel.len();
    let strides = per_axis(call, "strides", rank)?;
    let dilations = per_axis(call, "dilations", rank)?;
    let unpadded = matches!(call.text("auto_pad", "NOTSET"), "VALID");
    let pads = call.ints("pads").filter(|pads| !pads.is_empty() && !unpadded);
    if let Some(pads) = pads
        && pads.len() != 2 * rank
    {
        return Err(format!(
            "attribute `pads` has {} for {}",
            counted_as(pads.len(), "entry", "entries"),
            counted_as(rank, "axis", "axes")
        ));
    }
    let pad = |index: usize| pads.map_or(0, |pads| pads[index]);
    Ok((0..rank)
        .map(|axis| Slide {
            kernel: kernel[axis],
            stride: strides[axis],
            dilation: dilations[axis],
            before: pad(axis),
            after: pad(rank + axis),
        })
        .collect())
}

/// A list attribute of positive numbers, one for each axis; ones where it is left out.
fn per_axis(call: &Call, name: &str, rank: usize) -> Result<Shape, String> {
    match call.ints(name) {
        None | Some([]) => Ok(vec![1; rank]),
        Some(numbers) if numbers.len() != rank => Err(format!(
            "attribute `{name}` has {} for {}",
            counted_as(numbers.len(), "entry", "entries"),
            counted_as(rank, "axis", "axes")
        )),
        Some(numbers) if numbers.iter().any(|&number| number < 1) => {
            Err(format!("attribute `{name}` is not positive"))
        }
        Some(numbers) => numbers.iter().map(|&number| size(number)).collect(),
    }
}

/// Whether the file leaves the padding to the rule "as many places as strides in the length".
fn same_padding(call: &Call) -> bool {
    matches!(call.text("auto_pad", "NOTSET"), "SAME_UPPER" | "SAME_LOWER")
}

/// The spatial size of a sliding window's output.
fn slid(call: &Call, space: &[u64], kernel: &[u64], ceil: bool) -> Result<Shape, String> {
    if space.len() != kernel.len() {
        return Err(format!("a window of {} axes slides over {}", kernel.len(), space.len()));
    }
    let slides = slides(call, kernel)?;
    let same = same_padding(call);
    let places = space.iter().zip(slides);
    places
        .map(
            |(&length, slide)| {
                if same { Ok(length.div_ceil(slide.stride)) } else { slide.places(length, ceil) }
            },
        )
        .collect()
}

/// Splits off the axes before the spatial ones.
fn spatial(shape: &[u64]) -> Result<(u64, u64, &[u64]), String> {
    match shape {
        [batch, channels, space @ ..] if !space.is_empty() => Ok((*batch, *channels, space)),
        _ => Err(format!("rank {} leaves no spatial axes", shape.len())),
    }
}

/// The size of the window: the attribute, or that of the weights.
fn kernel(call: &Call, weights: &[u64]) -> Result<Shape, String> {
    match call.ints("kernel_shape") {
        None | Some([]) => Ok(weights.to_vec()),
        Some(kernel) => kernel.iter().map(|&number| size(number)).collect(),
    }
}

pub(super) fn convolution(call: &Call, weights: usize) -> Shapes {
    let (batch, channels, space) = spatial(call.shape(0)?)?;
    let (outputs, inputs, window) = spatial(call.shape(weights)?)?;
    let group = size(call.int("group", 1))?;
    if times(inputs, group)? != channels || group == 0 || outputs % group != 0 {
        return Err(format!("{group} groups of {inputs} channels do not make {channels}"));
    }
    let mut shape = vec![batch, outputs];
    shape.extend(slid(call, space, &kernel(call, window)?, false)?);
    Ok(vec![shape])
}

fn transposed(call: &Call) -> Shapes {
    let (batch, channels, space) = spatial(call.shape(0)?)?;
    let (inputs, outputs, window) = spatial(call.shape(1)?)?;
    if inputs != channels {
        return Err(format!("weights for {inputs} channels meet {channels}"));
    }
    let mut shape = vec![batch, times(outputs, size(call.int("group", 1))?)?];
    if let Some(given) = call.ints("output_shape").filter(|given| !given.is_empty()) {
        // Some exporters name the batch and channel axes too.
        let skip = given.len().checked_sub(space.len()).filter(|&skip| skip == 0 || skip == 2);
        let skip = skip.ok_or_else(|| {
            format!("attribute `output_shape` has {}", counted_as(given.len(), "entry", "entries"))
        })?;
        for &dim in &given[skip..] {
            shape.push(size(dim)?);
        }
        return Ok(vec![shape]);
    }
    let kernel = kernel(call, window)?;
    if kernel.len() != space.len() {
        return Err(format!("a window of {} axes slides over {}", kernel.len(), space.len()));
    }
    let extra = call.ints("output_padding").unwrap_or_default();
    for (axis, (&length, slide)) in space.iter().zip(slides(call, &kernel)?).enumerate() {
        let extra = extra.get(axis).copied().unwrap_or(0);
        let steps = i128::from(length) - 1;
        let grown = i128::from(slide.stride) * steps + i128::from(slide.reach()?) + i128::from(extra);
        let grown = if same_padding(call) {
            // Padding takes away what is too much, and never adds.
            grown.min(i128::from(slide.stride) * i128::from(length))
        } else {
            grown - i128::from(slide.before) - i128::from(slide.after)
        };
        shape.push(u64::try_from(grown).map_err(|_| format!("a size of {grown} is out of range"))?);
    }
    Ok(vec![shape])
}

fn causal(call: &Call) -> Shapes {
    let [batch, channels, length] = call.shape_of::<3>(0)?;
    let [_, _, kernel] = call.shape_of::<3>(1)?;
    let state = kernel.checked_sub(1).ok_or("a window has no size")?;
    Ok(vec![vec![batch, channels, length], vec![batch, channels, state]])
}

pub(super) fn pool(call: &Call, shape: &[u64]) -> Result<Shape, String> {
    let (batch, channels, space) = spatial(shape)?;
    let kernel = call.ints("kernel_shape").ok_or("attribute `kernel_shape` is missing")?;
    let kernel: Shape = kernel.iter().map(|&number| size(number)).collect::<Result<_, _>>()?;
    let mut shape = vec![batch, channels];
    shape.extend(slid(call, space, &kernel, call.int("ceil_mode", 0) != 0)?);
    Ok(shape)
}

pub(super) fn global(shape: &[u64]) -> Result<Shape, String> {
    let (batch, channels, space) = spatial(shape)?;
    let mut shape = vec![batch, channels];
    shape.extend(space.iter().map(|_| 1));
    Ok(shape)
}

fn unpool(call: &Call) -> Shapes {
    let (batch, channels, space) = spatial(call.shape(0)?)?;
    if call.has(2) {
        return Ok(vec![call.numbers(2)?.iter().map(|&dim| size(dim)).collect::<Result<_, _>>()?]);
    }
    let kernel = call.ints("kernel_shape").ok_or("attribute `kernel_shape` is missing")?;
    let kernel: Shape = kernel.iter().map(|&number| size(number)).collect::<Result<_, _>>()?;
    if kernel.len() != space.len() {
        return Err(format!("a window of {} axes slides over {}", kernel.len(), space.len()));
    }
    let mut shape = vec![batch, channels];
    for (&length, slide) in space.iter().zip(slides(call, &kernel)?) {
        let grown = (i128::from(length) - 1) * i128::from(slide.stride) + i128::from(slide.kernel);
        let grown = grown - i128::from(slide.before) - i128::from(slide.after);
        shape.push(u64::try_from(grown).map_err(|_| format!("a size of {grown} is out of range"))?);
    }
    Ok(vec![shape])
}

/// One cut of the features for each region of interest.
fn regions(call: &Call, size_of_one: &[i64]) -> Shapes {
    let (_, channels, space) = spatial(call.shape(0)?)?;
    let [regions, _] = call.shape_of::<2>(1)?;
    if size_of_one.len() != space.len() {
        return Err(format!("regions of {} axes lie in {}", size_of_one.len(), space.len()));
    }
    let mut shape = vec![regions, channels];
    for &dim in size_of_one {
        shape.push(size(dim)?);
    }
    Ok(vec![shape])
}

/// Columns put back into an image.
fn columns(call: &Call) -> Shapes {
    let [batch, columns, _] = call.shape_of::<3>(0)?;
    let image: Shape = call.numbers(1)?.iter().map(|&dim| size(dim)).collect::<Result<_, _>>()?;
    let block: Shape = call.numbers(2)?.iter().map(|&dim| size(dim)).collect::<Result<_, _>>()?;
    let block = product(&block)?;
    signed(block)?;
    let mut shape = vec![batch, divided(columns, block)?];
    shape.extend(image);
    Ok(vec![shape])
}

#[cfg(test)]
mod tests {
    use crate::onnx::infer::tests::{Bench, shape};

    fn bench(length: i64, operator: &str) -> Bench {
        let bench = Bench::new(13).input("x", &[1, 4, length, length]).input("w", &[8, 4, 3, 3]);
        bench.node(operator, &["x", "w"], &["y"])
    }

    #[test]
    fn a_convolution_slides() {
        assert_eq!(bench(7, "Conv").shape_of("y"), shape(&[1, 8, 5, 5]));
        let strided = bench(7, "Conv").ints("strides", &[2, 2]).ints("pads", &[1, 1, 1, 1]);
        assert_eq!(strided.shape_of("y"), shape(&[1, 8, 4, 4]));
        let dilated = bench(7, "Conv").ints("dilations", &[3, 2]);
        assert_eq!(dilated.shape_of("y"), shape(&[1, 8, 1, 3]));
        let same = bench(7, "Conv").text("auto_pad", "SAME_LOWER").ints("strides", &[2, 3]);
        assert_eq!(same.shape_of("y"), shape(&[1, 8, 4, 3]));
    }

    #[test]
    fn a_transposed_convolution_grows() {
        let bench = Bench::new(13).input("x", &[1, 4, 5, 5]).input("w", &[4, 6, 3, 3]);
        let bench = bench.node("ConvTranspose", &["x", "w"], &["y"]);
        assert_eq!(bench.shape_of("y"), shape(&[1, 6, 7, 7]));
        let strided = bench.clone().ints("strides", &[2, 2]).ints("output_padding", &[1, 1]).int("group", 2);
        assert_eq!(strided.shape_of("y"), shape(&[1, 12, 12, 12]));
        assert_eq!(bench.clone().ints("output_shape", &[9, 8]).shape_of("y"), shape(&[1, 6, 9, 8]));
        let same = bench.ints("strides", &[3, 2]).text("auto_pad", "SAME_UPPER");
        assert_eq!(same.shape_of("y"), shape(&[1, 6, 15, 10]));
        let apart = Bench::new(13).input("x", &[1, 4, 5]).input("w", &[4, 6, 1]);
        let apart = apart.node("ConvTranspose", &["x", "w"], &["y"]).ints("strides", &[3]);
        assert_eq!(apart.text("auto_pad", "SAME_UPPER").shape_of("y"), shape(&[1, 6, 13]));
    }

    #[test]
    fn pools_round_up_on_request() {
        let bench = Bench::new(13).input("x", &[1, 4, 6, 6]).node("MaxPool", &["x"], &["y", "at"]);
        let bench = bench.ints("kernel_shape", &[3, 3]).ints("strides", &[2, 2]);
        assert_eq!(bench.shape_of("y"), shape(&[1, 4, 2, 2]));
        assert_eq!(bench.clone().int("ceil_mode", 1).shape_of("at"), shape(&[1, 4, 3, 3]));
        assert_eq!(bench.fact("at").element, 7);
        let over = Bench::new(13).input("x", &[1, 4, 3]).node("MaxPool", &["x"], &["y"]);
        let over = over.ints("kernel_shape", &[4]).ints("strides", &[3]);
        assert!(over.reason().contains("does not fit"));
        assert_eq!(over.int("ceil_mode", 1).shape_of("y"), shape(&[1, 4, 1]));
        let bench = Bench::new(13).input("x", &[1, 4, 6, 6]).node("GlobalAveragePool", &["x"], &["y"]);
        assert_eq!(bench.shape_of("y"), shape(&[1, 4, 1, 1]));
    }

    #[test]
    fn windows_that_make_no_sense_are_refused() {
        assert!(bench(2, "Conv").reason().contains("does not fit"));
        assert!(bench(7, "Conv").ints("strides", &[0, 1]).reason().contains("not positive"));
        assert!(bench(7, "Conv").ints("pads", &[1]).reason().contains("pads"));
        assert!(bench(7, "Conv").int("group", 2).reason().contains("groups"));
        assert!(bench(7, "Conv").ints("kernel_shape", &[0, 0]).reason().contains("no size"));
        assert!(!bench(7, "Conv").ints("dilations", &[i64::MAX, i64::MAX]).reason().is_empty());
        assert!(!bench(7, "Conv").ints("pads", &[i64::MIN; 4]).reason().is_empty());
    }
}
