//! Pieces from their definition: which there are, and when values are there that pieces make.

use divvy_core::plan::Cuts;

use crate::oracle::model::Model;
use crate::oracle::simulate::{self, Job};

/// The pieces of one device.
pub type Pieces = Vec<Vec<usize>>;

/// Lists of jobs, one for each device, cut at the positions given; none if those are not ascending positions inside the list.
pub fn cut(lists: &[Vec<usize>], cuts: &Cuts) -> Option<Vec<Pieces>> {
    if cuts.len() != lists.len() {
        return None;
    }
    let mut all = Vec::new();
    for (list, cuts) in lists.iter().zip(cuts) {
        let mut pieces = Vec::new();
        let mut rest = &list[..];
        let mut done = 0;
        for &cut in cuts {
            let length =
                (cut as usize).checked_sub(done).filter(|&length| length > 0 && length < rest.len())?;
            pieces.push(rest[..length].to_vec());
            (rest, done) = (&rest[length..], done + length);
        }
        if !rest.is_empty() {
            pieces.push(rest.to_vec());
        }
        all.push(pieces);
    }
    Some(all)
}

/// Lists cut before every job, but the first, that `begins` says begins a piece: list and position.
pub fn cut_where(lists: &[Vec<usize>], begins: impl Fn(&[usize], usize) -> bool) -> Vec<Pieces> {
    let mut all = Vec::new();
    for list in lists {
        let mut pieces: Pieces = Vec::new();
        for (position, &job) in list.iter().enumerate() {
            match pieces.last_mut().filter(|_| !begins(list, position)) {
                Some(piece) => piece.push(job),
                None => pieces.push(vec![job]),
            }
        }
        all.push(pieces);
    }
    all
}

/// When the values of each job are there: jobs of devices run in pieces, the others by themselves in `queues`. A piece holds
/// its place in the queue of any of its jobs. None for a deadlock.
pub fn ends(model: &Model, jobs: &[Job], pieces: &[Pieces], queues: &[Vec<usize>]) -> Option<Vec<u64>> {
    // A job outside of all pieces is a piece by itself.
    let mut groups: Vec<(Option<usize>, Vec<usize>)> = Vec::new();
    for (device, pieces) in pieces.iter().enumerate() {
        groups.extend(pieces.iter().map(|piece| (Some(device), piece.clone())));
    }
    for job in 0..jobs.len() {
        if groups.iter().all(|(_, group)| !group.contains(&job)) {
            groups.push((None, vec![job]));
        }
    }
    let group_of = |job: usize| groups.iter().position(|(_, group)| group.contains(&job));
    let mut merged = Vec::new();
    for (device, group) in &groups {
        let mut whole = Job { duration: device.map_or(0, |d| model.piece_costs[d]), ..Job::default() };
        for (place, &job) in group.iter().enumerate() {
            whole.duration += jobs[job].duration;
            whole.release = whole.release.max(jobs[job].release);
            for &(other, delay) in &jobs[job].needs {
                match group.iter().position(|&inside| inside == other) {
                    Some(earlier) if earlier < place => {}
                    Some(_) => return None,
                    None => whole.needs.push((group_of(other)?, delay)),
                }
            }
        }
        merged.push(whole);
    }
    let mut lines: Vec<Vec<usize>> = Vec::new();
    for device in 0..pieces.len() {
        lines.push((0..groups.len()).filter(|&g| groups[g].0 == Some(device)).collect());
    }
    for queue in queues {
        lines.push(queue.iter().map(|&job| group_of(job)).collect::<Option<_>>()?);
    }
    let ends = simulate::ends(&merged, &lines)?;
    (0..jobs.len()).map(|job| Some(ends[group_of(job)?])).collect()
}

/// The pieces of a stream, as lists of ops: in canonical order an op joins the last piece of its device, unless it would wait
/// for another piece that waits for that one.
pub fn of_stream(model: &Model, device_of: &[usize]) -> Vec<(usize, Vec<usize>)> {
    let mut pieces: Vec<(usize, Vec<usize>)> = Vec::new();
    let makers = |op: usize| {
        let read = model.tensors.iter().filter(move |tensor| tensor.readers.contains(&op));
        read.filter_map(|tensor| tensor.maker)
    };
    for &op in &model.order {
        let device = device_of[op];
        let last = pieces.iter().rposition(|(d, _)| *d == device);
        // Everything that waits, piece by piece, for the last piece of the device.
        let mut waiting: Vec<usize> = last.into_iter().collect();
        loop {
            let more = (0..pieces.len()).find(|p| {
                !waiting.contains(p)
                    && pieces[*p].1.iter().any(|&reader| {
                        makers(reader).any(|maker| waiting.iter().any(|&w| pieces[w].1.contains(&maker)))
                    })
            });
            match more {
                Some(piece) => waiting.push(piece),
                None => break,
            }
        }
        let waits = makers(op)
            .any(|maker| waiting[last.is_some() as usize..].iter().any(|&w| pieces[w].1.contains(&maker)));
        match last.filter(|_| !waits) {
            Some(piece) => pieces[piece].1.push(op),
            None => pieces.push((device, vec![op])),
        }
    }
    pieces
}
