//! Results on disk: one line of JSON for each finished cell, added as soon as it is done.
//!
//! A line counts only for the build that wrote it: another build may plan better or worse. A last line that was cut off
//! is passed over, so that a run that was killed goes on with what it had.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::cells::Cell;
use crate::figures::Figures;

/// What is known of each cell, by its key.
#[derive(Clone, Debug, Default)]
pub struct Results(HashMap<String, Figures>);

impl Results {
    /// What came of a cell, if it was run.
    pub fn of(&self, cell: &Cell) -> Option<&Figures> {
        self.0.get(&cell.key())
    }

    /// Adds what came of a cell.
    pub fn add(&mut self, cell: &Cell, figures: Figures) {
        self.0.insert(cell.key(), figures);
    }
}

#[derive(Serialize, Deserialize)]
struct Line {
    build: String,
    key: String,
    figures: Figures,
}

/// The file that keeps an experiment's results.
pub(crate) struct Store {
    path: PathBuf,
    build: String,
}

impl Store {
    /// The store of an experiment, in a folder beside the pages.
    pub(crate) fn new(folder: &Path, experiment: &str, build: &str) -> Store {
        Store { path: folder.join(".cells").join(format!("{experiment}.jsonl")), build: build.to_owned() }
    }

    /// What this build has finished already.
    pub(crate) fn load(&self) -> Results {
        let text = fs::read(&self.path).unwrap_or_default();
        let lines = String::from_utf8_lossy(&text);
        let read = lines.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        Results(read.filter(|line| line.build == self.build).map(|line| (line.key, line.figures)).collect())
    }

    /// Adds a finished cell.
    pub(crate) fn add(&self, cell: &Cell, figures: &Figures) -> std::io::Result<()> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let line = Line { build: self.build.clone(), key: cell.key(), figures: figures.clone() };
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&self.path)?;
        // The break comes first, so that a line that was cut off spoils no other.
        file.write_all(format!("\n{}", serde_json::to_string(&line)?).as_bytes())
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) -> std::io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => Err(cause),
            _ => Ok(()),
        }
    }
}

/// Tells this build from others: the version and a fingerprint of the program.
pub(crate) fn build() -> String {
    let program = std::env::current_exe().and_then(fs::read).unwrap_or_default();
    let fingerprint: String =
        Sha256::digest(&program).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("{} {fingerprint}", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cells::Work;
    use crate::instances::Instance;
    use divvy_core::generate::RwnnOptions;
    use std::time::Duration;

    /// A folder that goes with the test.
    pub(crate) struct Folder(pub(crate) PathBuf);

    impl Folder {
        pub(crate) fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("divvy-lab-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn cell(planner: &'static str) -> Cell {
        let instance = Instance::Rwnn(RwnnOptions::default());
        Cell { instance, work: Work::Plan(planner), limit: Duration::from_secs(1) }
    }

    fn value(value_ps: u64) -> Figures {
        Figures { value_ps: Some(value_ps), ..Figures::default() }
    }

    #[test]
    fn what_was_stored_is_there_again_for_the_same_build_only() {
        let folder = Folder::new("store");
        let store = Store::new(&folder.0, "x", "1 abc");
        store.add(&cell("heft"), &value(7)).unwrap();
        store.add(&cell("peft"), &value(8)).unwrap();
        let results = store.load();
        assert_eq!(results.of(&cell("heft")).unwrap().value_ps, Some(7));
        assert_eq!(results.of(&cell("peft")).unwrap().value_ps, Some(8));
        assert!(results.of(&cell("met")).is_none());
        assert!(Store::new(&folder.0, "x", "1 def").load().of(&cell("heft")).is_none());
        store.clear().unwrap();
        assert!(store.load().of(&cell("heft")).is_none());
        store.clear().unwrap();
    }

    #[test]
    fn a_line_that_was_cut_off_spoils_no_other() {
        let folder = Folder::new("cut");
        let store = Store::new(&folder.0, "x", "1 abc");
        store.add(&cell("heft"), &value(7)).unwrap();
        let whole = fs::read(&store.path).unwrap();
        fs::write(&store.path, [&whole[..], b"\n{\"build\":\"1 abc\",\"ke"].concat()).unwrap();
        store.add(&cell("peft"), &value(8)).unwrap();
        let results = store.load();
        assert!(results.of(&cell("heft")).is_some() && results.of(&cell("peft")).is_some());
    }
}
