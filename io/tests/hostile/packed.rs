//! Files on disk: gzip that is broken, nested or far larger than it looks.

use std::io::Write;
use std::path::{Path, PathBuf};

use divvy_core::input_error::Code;
use divvy_io::file::MOST_BYTES;
use divvy_io::import::import;
use divvy_io::{Error, file, hardware_source};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::assert_well_told;
use crate::seeds::PROBLEM;

fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(bytes).and_then(|()| packer.finish()).expect("memory takes everything")
}

/// A file with these bytes, removed again at the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, bytes: &[u8]) -> Temporary {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).expect("the temporary folder can be written");
        Temporary(path)
    }

    /// Loads and imports the file.
    fn import(&self) -> Result<(), Error> {
        import(&file::load(self.path())?).map(|_| ())
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a plain path")
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn assert_fault(name: &str, bytes: &[u8], code: Code) {
    match Temporary::new(name, bytes).import() {
        Err(Error::Input { errors, .. }) => {
            assert_well_told(name, &errors);
            assert_eq!(errors.kept()[0].code, code, "{name}: {errors}");
        }
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn packed_files_are_read() {
    assert!(Temporary::new("sound.gz", &pack(PROBLEM.as_bytes())).import().is_ok());
}

#[test]
fn broken_gzip_is_the_inputs_fault() {
    let whole = pack(PROBLEM.as_bytes());
    assert_fault("truncated.gz", &whole[..whole.len() / 2], Code::Syntax);
    assert_fault("header-only.gz", &whole[..2], Code::Syntax);
    let mut corrupt = whole.clone();
    let middle = corrupt.len() / 2;
    corrupt[middle..middle + 9].fill(0xff);
    assert_fault("corrupt.gz", &corrupt, Code::Syntax);
    let mut checksum = whole.clone();
    let end = checksum.len() - 6;
    checksum[end] ^= 1;
    assert_fault("checksum.gz", &checksum, Code::Syntax);
    assert_fault("trailing.gz", &[whole.as_slice(), b"more"].concat(), Code::Syntax);
    assert_fault("twice.gz", &pack(&whole), Code::Format);
    assert_fault("nothing.gz", &pack(b""), Code::Syntax);
    assert_fault("garbage.gz", &pack(&[0xfe; 100]), Code::Format);
}

/// A gzip file may have many members: one small member, over and over, unpacks to more than divvy reads.
#[test]
fn a_gzip_bomb_is_refused() {
    let member = 1 << 24;
    let members = usize::try_from(MOST_BYTES).expect("it fits") / member + 1;
    let bomb = pack(&vec![b' '; member]).repeat(members);
    assert!(bomb.len() < 4 << 20, "a bomb is small");
    assert_fault("bomb.gz", &bomb, Code::TooLarge);
}

#[test]
fn what_cannot_be_read_is_the_environments_fault() {
    let folder = env!("CARGO_TARGET_TMPDIR");
    assert!(matches!(file::load(folder), Err(Error::Unreadable { .. })));
    assert!(matches!(file::load("no/such/file.json"), Err(Error::Unreadable { .. })));
}

#[test]
fn hardware_from_a_file_is_hardware() {
    let plan = Temporary::new("model.json", PROBLEM.as_bytes());
    match hardware_source::find(plan.path()) {
        Err(Error::Input { errors, .. }) => assert_eq!(errors.kept()[0].code, Code::Format),
        other => panic!("{other:?}"),
    }
    assert!(matches!(hardware_source::find("no-such-preset"), Err(Error::Input { .. })));
}
