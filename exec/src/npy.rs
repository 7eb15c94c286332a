//! NumPy's `.npy` and `.npz` files: one array, or several by name.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, Write};
use std::path::Path;

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::tensor::{Data, Element, HostTensor};

/// The most bytes of one array.
const MOST_BYTES: u64 = 4 << 30;

const MAGIC: &[u8] = b"\x93NUMPY";

/// The arrays of a file, by name. The array of an `.npy` file has no name.
pub fn read(path: &Path) -> Result<Vec<(String, HostTensor)>, String> {
    let about = |fault: String| format!("`{}`: {fault}", path.display());
    let mut file = File::open(path).map_err(|cause| about(format!("cannot be read: {cause}")))?;
    let mut start = [0; 2];
    let read = file.read(&mut start).and_then(|_| file.rewind());
    read.map_err(|cause| about(format!("cannot be read: {cause}")))?;
    if &start != b"PK" {
        return Ok(vec![(String::new(), read_array(file).map_err(about)?)]);
    }
    let broken = |error: zip::result::ZipError| about(format!("is not a whole .npz file: {error}"));
    let mut archive = ZipArchive::new(file).map_err(broken)?;
    let mut arrays = Vec::new();
    for i in 0..archive.len() {
        let entry = archive.by_index(i).map_err(broken)?;
        let name = entry.name().strip_suffix(".npy").unwrap_or(entry.name()).to_owned();
        let array = read_array(entry).map_err(|fault| about(format!("`{name}`: {fault}")))?;
        arrays.push((name, array));
    }
    Ok(arrays)
}

/// Writes arrays by name as an `.npz` file, which is open already.
pub fn write(file: &mut File, arrays: &[(String, HostTensor)]) -> io::Result<()> {
    let mut archive = ZipWriter::new(file);
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored).large_file(true);
    for (name, array) in arrays {
        archive.start_file(format!("{name}.npy"), options)?;
        archive.write_all(&encode(array))?;
    }
    archive.finish()?;
    Ok(())
}

fn read_array(source: impl Read) -> Result<HostTensor, String> {
    let mut bytes = Vec::new();
    let read = source.take(MOST_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|cause| format!("cannot be read: {cause}"))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!("it holds more than {} MiB", MOST_BYTES >> 20));
    }
    decode(&bytes)
}

/// An array as the bytes of an `.npy` file.
pub fn encode(array: &HostTensor) -> Vec<u8> {
    let kind = match array.element() {
        Element::F16 => "<f2",
        // NumPy has no such type: its values are written as what holds all of them.
        Element::BF16 | Element::F32 => "<f4",
        Element::F64 => "<f8",
        Element::I8 => "|i1",
        Element::I16 => "<i2",
        Element::I32 => "<i4",
        Element::I64 => "<i8",
        Element::U8 => "|u1",
        Element::U16 => "<u2",
        Element::U32 => "<u4",
        Element::U64 => "<u8",
        Element::Bool => "|b1",
    };
    let mut shape: String = array.shape.iter().map(|size| format!("{size}, ")).collect();
    if array.shape.len() != 1 {
        shape = shape.trim_end_matches(", ").to_owned();
    }
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Data begin at a multiple of 64 bytes.
    while !(MAGIC.len() + 4 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    match &array.data {
        Data::BF16(values) => bytes.extend(values.iter().flat_map(|x| x.to_f32().to_le_bytes())),
        _ => bytes.extend(array.to_bytes()),
    }
    bytes
}

fn decode(bytes: &[u8]) -> Result<HostTensor, String> {
    let mut source = Cursor::new(bytes);
    let mut take = |count: usize| -> Result<Vec<u8>, String> {
        let mut part = vec![0; count];
        source.read_exact(&mut part).map_err(|_| "it stops short".to_owned())?;
        Ok(part)
    };
    if take(6)? != MAGIC {
        return Err("it is neither .npy nor .npz".into());
    }
    let length = match take(2)?[0] {
        1 => usize::from(u16::from_le_bytes(take(2)?.try_into().map_err(|_| "it stops short")?)),
        _ => u32::from_le_bytes(take(4)?.try_into().map_err(|_| "it stops short")?) as usize,
    };
    if length > bytes.len() {
        return Err("it stops short".into());
    }
    let header = String::from_utf8(take(length)?).map_err(|_| "its header is not text")?;
    let field = |key: &str| header.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start());
    if field("fortran_order").is_some_and(|rest| rest.starts_with("True")) {
        return Err("it is stored column by column; save it with numpy.ascontiguousarray".into());
    }
    let kind = field("descr").and_then(|rest| rest.split('\'').nth(1)).ok_or("its header names no type")?;
    let shape = field("shape").and_then(|rest| rest.strip_prefix('(')?.split_once(')'));
    let shape = shape.ok_or("its header names no shape")?.0;
    let sizes = shape.split(',').map(str::trim).filter(|size| !size.is_empty());
    let shape: Vec<usize> = sizes
        .map(|size| size.parse().map_err(|_| format!("its shape has `{size}`")))
        .collect::<Result<_, _>>()?;
    let data = &bytes[source.position() as usize..];
    let element = match kind {
        "<f2" => Element::F16,
        "<f4" => Element::F32,
        "<f8" => Element::F64,
        "|i1" => Element::I8,
        "<i2" => Element::I16,
        "<i4" => Element::I32,
        "<i8" => Element::I64,
        "|u1" => Element::U8,
        "<u2" => Element::U16,
        "<u4" => Element::U32,
        "<u8" => Element::U64,
        "|b1" => Element::Bool,
        other => return Err(format!("elements of type `{other}` are not supported")),
    };
    let count = data.len() / element.size();
    HostTensor::from_bytes(element, shape.clone(), data)
        .ok_or_else(|| format!("it holds {count} elements, its shape {shape:?} needs others"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_come_back_as_they_were() {
        let path = std::env::temp_dir().join(format!("divvy-npy-{}.npz", std::process::id()));
        let mut state = 0.3;
        let mut unit = move || {
            state = (state * 997.0 + 0.1f64).fract();
            state
        };
        let mut array = |element, shape: &[usize]| HostTensor::random(element, shape.to_vec(), 9, &mut unit);
        let arrays = vec![
            ("x".to_owned(), array(Element::F32, &[2, 3])),
            ("a/b:0".to_owned(), array(Element::I64, &[4])),
            ("one".to_owned(), array(Element::F64, &[])),
            ("none".to_owned(), array(Element::U8, &[0, 2])),
            ("flags".to_owned(), array(Element::Bool, &[5])),
        ];
        write(&mut File::create(&path).unwrap(), &arrays).unwrap();
        assert_eq!(read(&path).unwrap(), arrays);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn broken_arrays_are_refused() {
        let array = HostTensor { shape: vec![2], data: Data::F32(vec![1.0, 2.0]) };
        let bytes = encode(&array);
        assert_eq!(bytes.len() % 64, 8, "data begin at a multiple of 64 bytes");
        assert_eq!(decode(&bytes), Ok(array));
        for end in [0, 5, 9, 40, bytes.len() - 1] {
            assert!(decode(&bytes[..end]).is_err(), "{end}");
        }
        let text = String::from_utf8_lossy(&bytes).replace("False", "True ");
        assert!(decode(text.as_bytes()).is_err());
    }
}
