//! What follows from what holds: clauses, one device for each unit, room in time, memory and on links, and work left.

use crate::stream::conflict_search::{ConflictSearch, Literal, Reason, negated};

/// More bytes that are bound to cross the shared medium, and why.
struct BoundBytes {
    bytes: u64,
    reasons: Vec<Literal>,
}

impl ConflictSearch<'_> {
    /// Follows everything up. Literals that hold and cannot all, if there are such.
    pub(crate) fn follow(&mut self) -> Option<Vec<Literal>> {
        let mut follows = Vec::new();
        loop {
            while self.followed < self.trail.len() {
                let literal = self.trail[self.followed];
                self.model.apply(literal, self.followed);
                self.followed += 1;
                follows.clear();
                if let Some(broken) = self.clauses.follow(negated(literal), &self.holds, &mut follows) {
                    return Some(self.clauses.literals(broken).iter().map(|&l| negated(l)).collect());
                }
                for &(literal, clause) in &follows {
                    if self.holds[negated(literal)] {
                        return Some(self.clauses.literals(clause).iter().map(|&l| negated(l)).collect());
                    }
                    if !self.holds[literal] {
                        self.set(literal, Reason::Clause(clause));
                    }
                }
                if let Some(conflict) = self.one_device(literal) {
                    return Some(conflict);
                }
            }
            let length = self.trail.len();
            for device in 0..self.model.devices {
                if std::mem::take(&mut self.model.changed_devices[device])
                    && let Some(conflict) = self.device(device)
                {
                    self.model.changed_devices[device] = true;
                    return Some(conflict);
                }
            }
            if self.trail.len() > length {
                continue;
            }
            for link in 0..self.model.capacity.len() {
                if std::mem::take(&mut self.model.changed_links[link])
                    && let Some(conflict) = self.link(link)
                {
                    self.model.changed_links[link] = true;
                    return Some(conflict);
                }
            }
            if self.trail.len() > length {
                continue;
            }
            let weights = self.model.weights.clone();
            if let Some(conflict) = self.work(&weights) {
                return Some(conflict);
            }
            if let Some(link) = self.model.shared
                && let Some(conflict) = self.shared(link)
            {
                return Some(conflict);
            }
            if self.trail.len() == length
                && let Some(relaxation) = &mut self.relaxation
            {
                let weights = relaxation.weights(&self.model);
                if let Some(conflict) = self.work(&weights) {
                    return Some(conflict);
                }
            }
            if self.trail.len() == length {
                return None;
            }
        }
    }

    /// A unit is on one device.
    fn one_device(&mut self, literal: Literal) -> Option<Vec<Literal>> {
        let (unit, device) = self.model.unit_and_device(literal);
        if literal.is_multiple_of(2) {
            for other in (0..self.model.devices).filter(|&other| other != device) {
                let there = self.model.literal(unit, other);
                if self.holds[there] {
                    return Some(vec![literal, there]);
                }
                if !self.holds[negated(there)] {
                    self.set(negated(there), Reason::Elsewhere);
                }
            }
            return None;
        }
        let literals = |d| self.model.literal(unit, d);
        let mut open = (0..self.model.devices).map(literals).filter(|&l| !self.holds[negated(l)]);
        match (open.next(), open.next()) {
            (None, _) => {
                Some((0..self.model.devices).map(|d| negated(self.model.literal(unit, d))).collect())
            }
            (Some(last), None) if !self.holds[last] => {
                self.set(last, Reason::Nowhere);
                None
            }
            _ => None,
        }
    }

    /// Time and memory of a device.
    fn device(&mut self, device: usize) -> Option<Vec<Literal>> {
        let (threshold, load) = (self.model.threshold, self.model.device_load[device]);
        if load > threshold {
            return Some(self.model.too_long(device, threshold, u32::MAX, &self.position));
        }
        for i in 0..self.model.by_time[device].len() {
            let unit = self.model.by_time[device][i];
            if self.model.time(unit, device).is_none_or(|time| time <= threshold - load) {
                break;
            }
            self.rule_out(self.model.literal(unit, device), Reason::Device);
        }
        let limit = self.model.tables.memory_limits[device]?;
        let load = self.model.memory_load[device];
        if load > limit {
            return Some(self.model.too_large(device, limit, u32::MAX, &self.position));
        }
        for unit in 0..self.model.units {
            if self.model.memory_of(unit) > limit - load {
                self.rule_out(self.model.literal(unit, device), Reason::Memory);
            }
        }
        None
    }

    /// Makes a literal false unless it is known.
    fn rule_out(&mut self, literal: Literal, reason: Reason) {
        if !self.holds[literal] && !self.holds[negated(literal)] {
            self.set(negated(literal), reason);
        }
    }

    /// Bytes on a link.
    fn link(&mut self, link: usize) -> Option<Vec<Literal>> {
        let (capacity, load) = (self.model.capacity[link], self.model.link_load[link]);
        if load > capacity {
            return Some(self.model.too_many_bytes(link, i128::from(capacity), u32::MAX));
        }
        let room = capacity - load;
        let is_missing_way = link + 1 == self.model.capacity.len();
        for i in 0..self.model.by_size.len() {
            let tensor = self.model.by_size[i];
            // A way that passes a link more often is found out once it is taken.
            if !is_missing_way && self.model.tensors[tensor].bytes.saturating_mul(2) <= room {
                break;
            }
            let producer = self.model.tensors[tensor].producer;
            for to in 0..self.model.devices {
                let is_wanted = self.model.wanted[tensor * self.model.devices + to] > 0;
                if let Some(from) = self.model.at[producer] {
                    if is_wanted || self.model.bytes_on(link, tensor, from, to) <= room {
                        continue;
                    }
                    let because = self.model.literal(producer, from) as u32;
                    let reason = Reason::Link { link: link as u32, tensor: tensor as u32, because };
                    for r in 0..self.model.tensors[tensor].readers.len() {
                        let reader = self.model.tensors[tensor].readers[r];
                        self.rule_out(self.model.literal(reader, to), reason);
                    }
                } else if is_wanted && let Some(because) = self.model.reader_on(tensor, to) {
                    let because = because as u32;
                    let reason = Reason::Link { link: link as u32, tensor: tensor as u32, because };
                    for from in (0..self.model.devices).filter(|&from| from != to) {
                        if self.model.bytes_on(link, tensor, from, to) > room {
                            self.rule_out(self.model.literal(producer, from), reason);
                        }
                    }
                }
            }
        }
        None
    }

    /// The work of all units, with weights, against what devices can take at most; and units that would be too much more
    /// than their least somewhere.
    fn work(&mut self, weights: &[u64]) -> Option<Vec<Literal>> {
        let model = &self.model;
        let cap = |d: usize| model.threshold.min(model.longest[d]);
        let most = |d: usize| (model.device_load[d] + model.potential[d]).min(cap(d));
        let taken: u128 = (0..model.devices).map(|d| u128::from(weights[d]) * u128::from(most(d))).sum();
        let weighed = |unit: usize, d: usize| {
            model.time(unit, d).map_or(u128::MAX, |time| u128::from(weights[d]) * u128::from(time))
        };
        // The least that a unit takes where it may be.
        let places = |unit: usize| model.at[unit].map_or(model.places[unit], |device| 1 << device);
        let least = |unit: usize| {
            let places = places(unit);
            (0..model.devices).filter(|d| places >> d & 1 == 1).map(|d| weighed(unit, d)).min().unwrap_or(0)
        };
        let least: Vec<u128> = (0..model.units).map(least).collect();
        let needed: u128 = least.iter().sum();
        let room = taken.checked_sub(needed);
        let mut gone: Vec<(u128, usize, Literal)> = Vec::new();
        if let Some(room) = room {
            for unit in (0..model.units).filter(|&unit| model.at[unit].is_none()) {
                for device in (0..model.devices).filter(|&d| model.places[unit] >> d & 1 == 1) {
                    let more = weighed(unit, device) - least[unit];
                    if more > room && model.time(unit, device).is_some() {
                        gone.push((more - room - 1, unit, model.literal(unit, device)));
                    }
                }
            }
            if gone.is_empty() {
                return None;
            }
        }
        // What makes it more than it would be anyway, of which unit, and why.
        let mut reasons: Vec<(u128, usize, Vec<Literal>)> = Vec::new();
        for (unit, &least) in least.iter().enumerate() {
            let cheaper = |d: &usize| weighed(unit, *d) < least;
            let first = (0..model.devices).map(|d| weighed(unit, d)).min().unwrap_or(0);
            if first < least {
                let why = match model.at[unit] {
                    Some(device) => vec![model.literal(unit, device)],
                    None => {
                        let cheaper = (0..model.devices).filter(cheaper);
                        cheaper.map(|d| negated(model.literal(unit, d))).collect()
                    }
                };
                reasons.push((least - first, unit, why));
            }
        }
        for device in (0..model.devices).filter(|&d| model.device_load[d] + model.potential[d] < cap(d)) {
            let ruled_out = |unit: &usize| model.places[*unit] >> device & 1 == 0;
            let ruled_out = model.by_time[device].iter().copied().filter(ruled_out);
            reasons.extend(
                ruled_out.map(|unit| {
                    (weighed(unit, device), usize::MAX, vec![negated(model.literal(unit, device))])
                }),
            );
        }
        // The small ones first are left out, as long as the rest is enough.
        reasons.sort_unstable();
        let enough = |mut spare: u128, without: usize| -> Vec<Literal> {
            let is_needed = |&&(weight, unit, _): &&(u128, usize, Vec<Literal>)| {
                if unit == without {
                    return false;
                }
                match spare.checked_sub(weight) {
                    Some(left) => {
                        spare = left;
                        false
                    }
                    None => true,
                }
            };
            let needed = reasons.iter().filter(is_needed);
            let mut literals: Vec<Literal> = needed.flat_map(|(_, _, why)| why).copied().collect();
            literals.sort_unstable();
            literals.dedup();
            literals
        };
        if room.is_none() {
            return Some(enough(needed - taken - 1, usize::MAX - 1));
        }
        for (spare, unit, literal) in gone {
            if !self.holds[literal] && !self.holds[negated(literal)] {
                let reason = enough(spare, unit);
                let reason = self.store(reason);
                self.set(negated(literal), reason);
            }
        }
        None
    }

    /// Bytes that are bound to cross the medium that every way passes, beyond those already sent.
    fn bound_to_cross(&self, tensor: usize) -> Option<BoundBytes> {
        let model = &self.model;
        let (bytes, producer) = (model.tensors[tensor].bytes, model.tensors[tensor].producer);
        let wanted = model.wanted_at(tensor);
        let readers = || model.tensors[tensor].readers.iter().copied();
        let devices = |set: u64| (0..model.devices).filter(move |d| set >> d & 1 == 1);
        if let Some(from) = model.at[producer] {
            let taken = wanted | 1 << from;
            let reader = readers().find(|&r| model.at[r].is_none() && model.places[r] & taken == 0)?;
            let mut reasons: Vec<Literal> =
                devices(taken).map(|d| negated(model.literal(reader, d))).collect();
            reasons.push(model.literal(producer, from));
            return Some(BoundBytes { bytes, reasons });
        }
        if wanted == 0 {
            let reasons = readers().find_map(|reader| model.apart(producer, reader))?;
            return Some(BoundBytes { bytes, reasons });
        }
        let elsewhere = model.places[producer] & wanted == 0;
        let times = u64::from(wanted.count_ones()) - u64::from(!elsewhere);
        let mut reasons: Vec<Literal> = devices(wanted).filter_map(|d| model.reader_on(tensor, d)).collect();
        if elsewhere {
            reasons.extend(devices(wanted).map(|d| negated(model.literal(producer, d))));
        }
        (times > 0).then_some(BoundBytes { bytes: bytes.saturating_mul(times), reasons })
    }

    /// The medium that every way passes.
    fn shared(&mut self, link: usize) -> Option<Vec<Literal>> {
        let all: Vec<(usize, BoundBytes)> =
            (0..self.model.tensors.len()).filter_map(|t| Some((t, self.bound_to_cross(t)?))).collect();
        let capacity = self.model.capacity[link];
        let load: u128 = u128::from(self.model.link_load[link])
            + all.iter().map(|(_, bound)| u128::from(bound.bytes)).sum::<u128>();
        let mut parts: Vec<(u64, Vec<Literal>)> =
            all.iter().map(|(_, bound)| (bound.bytes, bound.reasons.clone())).collect();
        parts.extend(self.model.sent[link].iter().map(|sent| (sent.bytes, vec![sent.maker, sent.reader])));
        parts.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let too_many = |room: i128| {
            let (mut sum, mut chosen) = (0i128, Vec::new());
            for (bytes, reasons) in &parts {
                if sum > room {
                    break;
                }
                sum += i128::from(*bytes);
                chosen.extend(reasons);
            }
            chosen.sort_unstable();
            chosen.dedup();
            chosen
        };
        if load > u128::from(capacity) {
            return Some(too_many(i128::from(capacity)));
        }
        let room = u128::from(capacity) - load;
        let mut crosses = vec![false; self.model.tensors.len()];
        all.iter().for_each(|(tensor, _)| crosses[*tensor] = true);
        for i in 0..self.model.by_size.len() {
            let tensor = self.model.by_size[i];
            let bytes = self.model.tensors[tensor].bytes;
            if u128::from(bytes) <= room {
                break;
            }
            let producer = self.model.tensors[tensor].producer;
            if crosses[tensor] || self.model.at[producer].is_some() || self.model.wanted_at(tensor) != 0 {
                continue;
            }
            // It cannot cross: its ends share a device.
            for r in 0..self.model.tensors[tensor].readers.len() {
                let reader = self.model.tensors[tensor].readers[r];
                for device in 0..self.model.devices {
                    for (gone, other) in [(producer, reader), (reader, producer)] {
                        let (gone, other) =
                            (self.model.literal(gone, device), self.model.literal(other, device));
                        if self.holds[negated(gone)] && !self.holds[other] && !self.holds[negated(other)] {
                            let mut reasons = too_many(i128::from(capacity) - i128::from(bytes));
                            reasons.push(negated(gone));
                            let reason = self.store(reasons);
                            self.set(negated(other), reason);
                        }
                    }
                }
            }
        }
        None
    }
}
