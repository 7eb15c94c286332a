//! Weights in files of their own: found, refused, moved.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use divvy_io::onnx::cut::{CutPiece, cut};
use divvy_io::onnx::proto::{Model, Tensor};
use divvy_io::onnx::symbolic::SymbolicShapes;
use divvy_io::onnx::weights::{
    Manifest, Weights, WeightsError, Writing, is_external, read, resolve, write_pieces,
};
use prost::Message;

use crate::build::{entry, graph, model, pieces};

/// A fresh folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("onnx_cut-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A tensor of bytes in a file of its own.
fn external(name: &str, length: i64, entries: &[(&str, &str)]) -> Tensor {
    Tensor {
        name: Some(name.into()),
        dims: vec![length],
        data_type: Some(2),
        data_location: Some(1),
        external_data: entries.iter().map(|(key, value)| entry(key, value)).collect(),
        ..Default::default()
    }
}

#[test]
fn a_range_is_read_and_nothing_else() {
    let folder = folder("range");
    fs::create_dir(folder.join("sub")).unwrap();
    fs::write(folder.join("sub/w.bin"), b"0123456789").unwrap();
    let at =
        [("location", "./sub/w.bin"), ("offset", "2"), ("length", "3"), ("checksum", "ab"), ("other", "x")];
    let found = resolve(&folder, &external("t", 3, &at)).unwrap();
    assert!(found.present);
    assert_eq!((found.offset, found.length, found.checksum.as_deref()), (2, Some(3), Some("ab")));
    assert_eq!(read(&folder, &external("t", 3, &at)).unwrap(), "234");
    // Without a length the shape tells; without either the rest of the file.
    assert_eq!(read(&folder, &external("t", 4, &[at[0], at[1]])).unwrap(), "2345");
    let mut unknown = external("t", 4, &[at[0], at[1]]);
    unknown.data_type = Some(99);
    assert_eq!(read(&folder, &unknown).unwrap(), "23456789");
    let inline = Tensor { raw_data: Some(Bytes::from_static(b"abc")), ..Default::default() };
    assert_eq!(read(&folder, &inline).unwrap(), "abc");
    assert!(matches!(read(&folder, &Tensor::default()), Err(WeightsError::NotExternal { .. })));
}

#[test]
fn paths_out_of_the_folder_are_refused() {
    let outer = folder("traversal");
    let inner = outer.join("model");
    fs::create_dir(&inner).unwrap();
    fs::write(outer.join("secret"), b"0123456789").unwrap();
    let absolute = outer.join("secret");
    let absolute = absolute.to_str().unwrap();
    for location in
        ["../secret", "a/../../secret", "a/../b", "..", ".", "", "/", absolute, "..\\secret", "a\0b", "C:\\x"]
    {
        let found = resolve(&inner, &external("t", 3, &[("location", location)]));
        assert!(matches!(found, Err(WeightsError::Outside { .. })), "{location:?}: {found:?}");
    }
    fs::create_dir(inner.join("dir")).unwrap();
    let found = resolve(&inner, &external("t", 3, &[("location", "dir")]));
    assert!(matches!(found, Err(WeightsError::Outside { .. })), "{found:?}");
}

#[cfg(unix)]
#[test]
fn links_out_of_the_folder_are_refused() {
    use std::os::unix::fs::symlink;

    let outer = folder("links");
    let inner = outer.join("model");
    fs::create_dir(&inner).unwrap();
    fs::create_dir(outer.join("model2")).unwrap();
    fs::write(outer.join("model2/secret"), b"0123456789").unwrap();
    fs::write(inner.join("real"), b"0123456789").unwrap();
    symlink("../model2/secret", inner.join("file")).unwrap();
    symlink("../model2", inner.join("folder")).unwrap();
    symlink("real", inner.join("fine")).unwrap();
    symlink("gone", inner.join("dangling")).unwrap();
    symlink("/dev/zero", inner.join("zero")).unwrap();
    for location in ["file", "folder/secret", "zero"] {
        let found = resolve(&inner, &external("t", 3, &[("location", location)]));
        assert!(matches!(found, Err(WeightsError::Outside { .. })), "{location}: {found:?}");
    }
    assert_eq!(read(&inner, &external("t", 3, &[("location", "fine")])).unwrap(), "012");
    assert!(!resolve(&inner, &external("t", 3, &[("location", "dangling")])).unwrap().present);
}

#[test]
fn ranges_are_not_trusted() {
    let folder = folder("ranges");
    fs::write(folder.join("w"), b"0123456789").unwrap();
    let at = |offset: &str, length: &str, shape: i64| {
        resolve(&folder, &external("t", shape, &[("location", "w"), ("offset", offset), ("length", length)]))
    };
    assert!(matches!(at("8", "3", 3), Err(WeightsError::Short { size: 10, .. })));
    assert!(matches!(at("18446744073709551615", "3", 3), Err(WeightsError::Short { .. })));
    assert!(matches!(at("0", "4", 3), Err(WeightsError::Length { length: 4, needed: 3, .. })));
    assert!(matches!(at("0", "99999999999", i64::MAX), Err(WeightsError::Short { .. })));
    assert!(matches!(at("0", "99999999999", -1), Err(WeightsError::Short { .. })));
    for bad in ["-1", "x", "", "1.5", "99999999999999999999999"] {
        assert!(matches!(at(bad, "3", 3), Err(WeightsError::Entry { key: "offset", .. })), "{bad}");
    }
    let twice = external("t", 3, &[("location", "w"), ("location", "v")]);
    assert!(matches!(resolve(&folder, &twice), Err(WeightsError::Entry { key: "location", .. })));
    let nowhere = external("t", 3, &[]);
    assert!(matches!(resolve(&folder, &nowhere), Err(WeightsError::Entry { key: "location", .. })));
    let absent = external("t", 3, &[("location", "gone")]);
    assert!(matches!(read(&folder, &absent), Err(WeightsError::Absent { .. })));
}

/// Two pieces: the first with weights in a file (one of them tied, one small), in itself and in no file; the second
/// shares one.
fn weighted(folder: &Path) -> (Vec<CutPiece>, PathBuf) {
    let data: Vec<u8> = (0..20_000u32).map(|byte| (byte % 251) as u8).collect();
    fs::write(folder.join("w.bin"), data).unwrap();
    let mut whole = graph("Op x big tied small > a\nOp a inside gone > b\nOp b big > y", "x", "y", "");
    let at = [("location", "w.bin"), ("offset", "100"), ("length", "5000")];
    whole.initializer = vec![
        external("big", 5000, &at),
        external("tied", 5000, &at),
        external("small", 10, &[("location", "w.bin"), ("offset", "7")]),
        Tensor {
            name: Some("inside".into()),
            dims: vec![3000],
            data_type: Some(2),
            raw_data: Some(vec![9; 3000].into()),
            ..Default::default()
        },
        external("gone", 64, &[("location", "gone.bin")]),
    ];
    let whole = model(whole);
    let source = folder.join("whole.onnx");
    fs::write(&source, whole.encode_to_vec()).unwrap();
    (cut(&whole, &pieces(&[&[0, 1], &[2]]), &SymbolicShapes::default()).unwrap(), source)
}

fn load(path: &Path) -> Model {
    Model::decode(fs::read(path).unwrap().as_slice()).unwrap()
}

/// The weights of a written piece that are there must be those of the source.
fn assert_same_weights(piece: &CutPiece, source: &Path, target: &Path, file: &str) -> Vec<Tensor> {
    let written = load(&target.join(file)).graph.unwrap().initializer;
    for (old, new) in piece.model.graph.as_ref().unwrap().initializer.iter().zip(&written) {
        assert_eq!(old.name, new.name);
        if old.name() == "gone" {
            assert_eq!(old, new);
        } else {
            assert_eq!(
                read(source.parent().unwrap(), old).unwrap(),
                read(target, new).unwrap(),
                "{:?}",
                old.name
            );
        }
    }
    written
}

fn files(folder: &Path) -> Vec<String> {
    let mut files: Vec<String> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    files
}

#[test]
fn weights_go_into_the_piece() {
    let folder = folder("inline");
    let (cut, source) = weighted(&folder);
    let target = folder.join("out");
    let manifest = write_pieces(&cut, &source, &target, &Weights::Inline.into()).unwrap();
    assert_eq!(files(&target), ["manifest.json", "p0.onnx", "p1.onnx"]);
    let written = assert_same_weights(&cut[0], &source, &target, "p0.onnx");
    assert_eq!(written.iter().filter(|tensor| is_external(tensor)).count(), 1);
    assert_same_weights(&cut[1], &source, &target, "p1.onnx");
    assert_eq!(manifest.pieces[0].weight_files, ["gone.bin"]);
}

#[test]
fn weights_go_beside_the_piece_at_whole_pages() {
    let folder = folder("external");
    let (cut, source) = weighted(&folder);
    let target = folder.join("out");
    write_pieces(&cut, &source, &target, &Weights::External.into()).unwrap();
    assert_eq!(files(&target), ["manifest.json", "p0.onnx", "p0.onnx.data", "p1.onnx", "p1.onnx.data"]);
    let written = assert_same_weights(&cut[0], &source, &target, "p0.onnx");
    assert_same_weights(&cut[1], &source, &target, "p1.onnx");
    let places: Vec<Option<u64>> =
        written.iter().map(|tensor| resolve(&target, tensor).ok().map(|found| found.offset)).collect();
    // `tied` is where `big` is, `small` in the piece itself.
    assert_eq!(places, [Some(0), Some(0), None, Some(8192), Some(0)]);
    assert_eq!(fs::metadata(target.join("p0.onnx.data")).unwrap().len(), 8192 + 3000);
}

#[test]
fn weights_stay_where_they_are() {
    let folder = folder("keep");
    let (cut, source) = weighted(&folder);
    let manifest = write_pieces(&cut, &source, &folder, &Weights::KeepReference.into()).unwrap();
    assert_eq!(load(&folder.join("p0.onnx")), cut[0].model);
    assert_eq!(manifest.pieces[0].weight_files, ["gone.bin", "w.bin"]);
}

#[test]
fn the_manifest_tells_all() {
    let folder = folder("manifest");
    let (cut, source) = weighted(&folder);
    let target = folder.join("out");
    let manifest = write_pieces(&cut, &source, &target, &Weights::External.into()).unwrap();
    let text = fs::read_to_string(target.join("manifest.json")).unwrap();
    assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), manifest);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["divvy"], "pieces");
    assert_eq!(value["source"]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(value["inputs"], serde_json::json!(["x"]));
    assert_eq!(value["outputs"], serde_json::json!(["y"]));
    let expected = serde_json::json!({
        "name": "p0", "file": "p0.onnx", "device": "d0", "stage": 0,
        "inputs": [{"name": "x", "element": "float", "shape": [2, "N"]}],
        "outputs": [{"name": "b", "element": "float", "shape": [2, "N"]}],
        "weight_bytes": 13074,
        "weight_files": ["gone.bin", "p0.onnx.data"],
        "missing_weights": [{"tensor": "gone", "location": "gone.bin"}],
    });
    assert_eq!(value["pieces"][0], expected);
    assert_eq!(value["feeds"], serde_json::json!([{"from": "p0", "to": "p1", "values": ["b"]}]));
}

#[test]
fn nothing_is_written_when_something_is_refused() {
    let folder = folder("refused");
    let (mut cut, source) = weighted(&folder);
    let target = folder.join("out");
    let evil = external("evil", 3, &[("location", "../w.bin")]);
    cut[1].model.graph.as_mut().unwrap().initializer.push(evil);
    for how in [Weights::Inline, Weights::External, Weights::KeepReference] {
        let refused = write_pieces(&cut, &source, &target, &how.into());
        assert!(matches!(refused, Err(WeightsError::Outside { .. })), "{refused:?}");
    }
    assert!(!target.exists());

    // More than 2 GiB, in a file that takes no space.
    let huge = fs::File::create(folder.join("huge.bin")).unwrap();
    huge.set_len(3 << 30).unwrap();
    let (mut cut, _) = weighted(&folder);
    let tensor = external("huge", 3 << 30, &[("location", "huge.bin")]);
    cut[1].model.graph.as_mut().unwrap().initializer.push(tensor);
    let refused = write_pieces(&cut, &source, &target, &Weights::Inline.into()).unwrap_err();
    assert!(matches!(&refused, WeightsError::PieceTooLarge { piece, .. } if piece == "p1"), "{refused}");
    assert!(refused.to_string().contains("hint: "));
    assert!(!target.exists());
    fs::remove_file(folder.join("huge.bin")).unwrap();

    // A file that cannot be put in place leaves no half-written ones behind.
    fs::create_dir_all(target.join("p1.onnx")).unwrap();
    let (cut, source) = weighted(&folder);
    assert!(write_pieces(&cut, &source, &target, &Weights::Inline.into()).is_err());
    assert!(!files(&target).iter().any(|name| name.ends_with(".part") || name == "manifest.json"));
}

#[test]
fn sources_are_never_overwritten() {
    let folder = folder("overwrite");
    let (mut cut, source) = weighted(&folder);
    cut[0].name = "whole".into();
    let refused = write_pieces(&cut, &source, &folder, &Weights::Inline.into());
    assert!(matches!(refused, Err(WeightsError::Overwrites { .. })), "{refused:?}");
    // Nor does a new file take the place of one that is missing.
    cut[0].name = "p0".into();
    let missing = &mut cut[0].model.graph.as_mut().unwrap().initializer[4];
    missing.external_data = vec![entry("location", "./p0.onnx.data")];
    let refused = write_pieces(&cut, &source, &folder.join("out"), &Weights::External.into());
    assert!(matches!(refused, Err(WeightsError::Overwrites { .. })), "{refused:?}");
}

#[test]
fn an_earlier_export_is_replaced_and_other_files_are_left_alone() {
    let folder = folder("again");
    let (mut cut, source) = weighted(&folder);
    let target = folder.join("out");
    write_pieces(&cut, &source, &target, &Weights::External.into()).unwrap();
    fs::write(target.join("notes.txt"), "mine").unwrap();
    assert_eq!(
        files(&target),
        ["manifest.json", "notes.txt", "p0.onnx", "p0.onnx.data", "p1.onnx", "p1.onnx.data"]
    );
    // Fewer pieces under other names: nothing of the first export stays.
    cut.truncate(1);
    cut[0].name = "q".into();
    write_pieces(&cut, &source, &target, &Weights::Inline.into()).unwrap();
    assert_eq!(files(&target), ["manifest.json", "notes.txt", "q.onnx"]);

    // A file that no export wrote is in the way.
    cut[0].name = "r".into();
    fs::write(target.join("r.onnx"), "mine too").unwrap();
    let refused = write_pieces(&cut, &source, &target, &Weights::Inline.into()).unwrap_err();
    assert!(matches!(refused, WeightsError::Foreign { .. }), "{refused}");
    assert!(refused.to_string().contains("hint: "));
    assert_eq!(files(&target), ["manifest.json", "notes.txt", "q.onnx", "r.onnx"]);
    let forced = Writing { overwrite: true, ..Weights::Inline.into() };
    write_pieces(&cut, &source, &target, &forced).unwrap();
    assert_eq!(files(&target), ["manifest.json", "notes.txt", "r.onnx"]);

    // Another tool's manifest is not taken for ours, and an edited one does not lead outside.
    fs::write(target.join("manifest.json"), "{}").unwrap();
    let refused = write_pieces(&cut, &source, &target, &Weights::Inline.into()).unwrap_err();
    assert!(matches!(refused, WeightsError::Foreign { .. }), "{refused}");
    let mut manifest = write_pieces(&cut, &source, &target, &forced).unwrap();
    let victim = folder.join("victim.onnx");
    fs::write(&victim, "precious").unwrap();
    manifest.pieces[0].file = "../victim.onnx".into();
    fs::write(target.join("manifest.json"), serde_json::to_vec(&manifest).unwrap()).unwrap();
    write_pieces(&cut, &source, &target, &forced).unwrap();
    assert!(victim.exists());
}

#[test]
fn names_of_pieces_become_plain_and_unlike_file_names() {
    let folder = folder("names");
    let (mut cut, source) = weighted(&folder);
    cut[0].name = "../cuda:0".into();
    cut[1].name = "../CUDA 0".into();
    let manifest = write_pieces(&cut, &source, &folder.join("out"), &Weights::Inline.into()).unwrap();
    let names: Vec<&str> = manifest.pieces.iter().map(|piece| piece.file.as_str()).collect();
    assert_eq!(names, ["_cuda_0.onnx", "_CUDA_0-2.onnx"]);
    write_pieces(&cut, &source, &folder.join("out"), &Weights::Inline.into()).unwrap();
}
