//! Shapes of products of matrices: MatMul, Gemm, Einsum.

use super::call::{Call, Shape, Shapes, broadcast, product};

/// The shapes of the outputs, if the operator is of this family.
pub(super) fn shapes(call: &Call) -> Option<Shapes> {
    Some(match call.operator() {
        "MatMul" | "MatMulInteger" => two(call, 0, 1),
        "QLinearMatMul" => two(call, 0, 3),
        "Gemm" => gemm(call, 1),
        "Einsum" => einsum(call),
        "Det" => determinant(call),
        _ => return None,
    })
}

pub(super) fn two(call: &Call, left: usize, right: usize) -> Shapes {
    Ok(vec![product_of(call.shape(left)?, call.shape(right)?)?])
}

/// The shape of a product; a vector on the left is a row, one on the right a column.
pub(super) fn product_of(left: &[u64], right: &[u64]) -> Result<Shape, String> {
    let fail = || Err(format!("shapes {left:?} and {right:?} cannot be multiplied"));
    let (left_batch, rows, inner) = match left {
        [batch @ .., rows, inner] => (batch, Some(*rows), *inner),
        [inner] => (&[][..], None, *inner),
        [] => return fail(),
    };
    let (right_batch, other, columns) = match right {
        [batch @ .., inner, columns] => (batch, *inner, Some(*columns)),
        [inner] => (&[][..], *inner, None),
        [] => return fail(),
    };
    if inner != other {
        return fail();
    }
    let mut shape = broadcast(&[left_batch, right_batch])?;
    shape.extend(rows);
    shape.extend(columns);
    Ok(shape)
}

/// A product of matrices, the second of which is input `second`.
pub(super) fn gemm(call: &Call, second: usize) -> Shapes {
    let turned = |name: &str, [rows, columns]: [u64; 2]| {
        if call.int(name, 0) != 0 { [columns, rows] } else { [rows, columns] }
    };
    let left = turned("transA", call.shape_of::<2>(0)?);
    let right = turned("transB", call.shape_of::<2>(second)?);
    Ok(vec![product_of(&left, &right)?])
}

fn determinant(call: &Call) -> Shapes {
    match call.shape(0)? {
        [batch @ .., rows, columns] if rows == columns => Ok(vec![batch.to_vec()]),
        shape => Err(format!("{shape:?} is not square")),
    }
}

/// The sizes of the letters of an equation, and those of the axes an ellipsis stands for.
struct Letters {
    sizes: [Option<u64>; 128],
    counts: [u32; 128],
    ellipsis: Option<Shape>,
}

impl Letters {
    /// Reads one operand: its letters in the equation against its shape.
    fn read(&mut self, term: &str, shape: &[u64]) -> Result<(), String> {
        let (before, after) = match term.split_once("...") {
            Some((before, after)) => (before, after),
            None => (term, ""),
        };
        let named = before.len() + after.len();
        let hidden = shape.len().checked_sub(named).filter(|&hidden| hidden == 0 || term.contains("..."));
        let hidden = hidden.ok_or_else(|| format!("`{term}` does not name the axes of {shape:?}"))?;
        let (first, rest) = shape.split_at(before.len());
        let (middle, last) = rest.split_at(hidden);
        for (letter, &size) in before.bytes().chain(after.bytes()).zip(first.iter().chain(last)) {
            let letter = slot(letter)?;
            self.counts[letter] = self.counts[letter].saturating_add(1);
            let known = self.sizes[letter].get_or_insert(size);
            if *known == 1 {
                *known = size;
            } else if size != 1 && size != *known {
                return Err(format!("`{term}` gives a letter two sizes"));
            }
        }
        if term.contains("...") {
            let known = self.ellipsis.take().unwrap_or_default();
            self.ellipsis = Some(broadcast(&[&known, middle])?);
        }
        Ok(())
    }

    fn size(&self, letter: u8) -> Result<u64, String> {
        self.sizes[slot(letter)?].ok_or_else(|| format!("letter `{}` has no size", char::from(letter)))
    }
}

/// Where a letter is kept.
fn slot(letter: u8) -> Result<usize, String> {
    if letter.is_ascii_alphabetic() {
        Ok(usize::from(letter))
    } else {
        Err(format!("`{}` is not a letter", char::from(letter)))
    }
}

/// An equation without its blanks.
fn without_blanks(equation: &str) -> String {
    equation.chars().filter(|letter| !letter.is_whitespace()).collect()
}

/// Reads the operands of an equation against their shapes.
fn letters(equation: &str, shapes: &[&[u64]]) -> Result<Letters, String> {
    let operands = equation.split_once("->").map_or(equation, |(operands, _)| operands);
    let terms: Vec<&str> = operands.split(',').collect();
    if terms.len() != shapes.len() {
        return Err(format!("the equation has {} operands, not {}", terms.len(), shapes.len()));
    }
    let mut letters = Letters { sizes: [None; 128], counts: [0; 128], ellipsis: None };
    for (term, shape) in terms.into_iter().zip(shapes) {
        letters.read(term, shape)?;
    }
    Ok(letters)
}

/// Number of products that an equation sums.
pub(in crate::onnx) fn einsum_products(equation: &str, shapes: &[&[u64]]) -> Result<u64, String> {
    let letters = letters(&without_blanks(equation), shapes)?;
    let sizes: Vec<u64> =
        letters.sizes.iter().flatten().chain(letters.ellipsis.iter().flatten()).copied().collect();
    product(&sizes)
}

fn einsum(call: &Call) -> Shapes {
    let equation = without_blanks(call.text("equation", ""));
    let letters = letters(&equation, &call.all_shapes()?)?;
    let mut shape = Vec::new();
    match equation.split_once("->").map(|(_, output)| output) {
        Some(output) => {
            let (before, after) = output.split_once("...").unwrap_or((output, ""));
            for letter in before.bytes() {
                shape.push(letters.size(letter)?);
            }
            if output.contains("...") {
                shape.extend(letters.ellipsis.clone().unwrap_or_default());
            }
            for letter in after.bytes() {
                shape.push(letters.size(letter)?);
            }
        }
        // Without an output: the axes of the ellipsis, then the letters that come once, in alphabetical order.
        None => {
            shape.extend(letters.ellipsis.clone().unwrap_or_default());
            for letter in (0..128u8).filter(|&letter| letters.counts[usize::from(letter)] == 1) {
                shape.push(letters.size(letter)?);
            }
        }
    }
    Ok(vec![shape])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::infer::tests::{Bench, shape};

    #[test]
    fn products_of_vectors_matrices_and_stacks() {
        assert_eq!(product_of(&[2, 3], &[3, 4]), Ok(vec![2, 4]));
        assert_eq!(product_of(&[3], &[3, 4]), Ok(vec![4]));
        assert_eq!(product_of(&[5, 2, 3], &[3]), Ok(vec![5, 2]));
        assert_eq!(product_of(&[3], &[3]), Ok(vec![]));
        assert_eq!(product_of(&[7, 1, 2, 3], &[6, 3, 4]), Ok(vec![7, 6, 2, 4]));
        assert!(product_of(&[2, 3], &[2, 3]).is_err() && product_of(&[], &[3]).is_err());
    }

    #[test]
    fn gemm_turns_its_operands() {
        let bench = Bench::new(13).input("a", &[3, 2]).input("b", &[4, 3]).node("Gemm", &["a", "b"], &["y"]);
        assert_eq!(bench.clone().int("transA", 1).int("transB", 1).shape_of("y"), shape(&[2, 4]));
        assert!(bench.reason().contains("cannot be multiplied"));
    }

    #[test]
    fn equations_name_axes() {
        let bench = Bench::new(13).input("a", &[5, 2, 3]).input("b", &[5, 3, 4]);
        let bench = bench.node("Einsum", &["a", "b"], &["y"]);
        assert_eq!(bench.clone().text("equation", "bij, bjk -> bik").shape_of("y"), shape(&[5, 2, 4]));
        assert_eq!(bench.clone().text("equation", "...ij,...jk->...ki").shape_of("y"), shape(&[5, 4, 2]));
        assert_eq!(bench.clone().text("equation", "bij,bjk").shape_of("y"), shape(&[2, 4]));
        for wrong in ["", "bij->b", "bi,bjk->b", "bij,bkj->b", "bij,bjk->z", "b?j,bjk->b", "...,...,..."] {
            assert!(!bench.clone().text("equation", wrong).reason().is_empty(), "{wrong}");
        }
    }
}
