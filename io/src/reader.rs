//! Reading untrusted JSON and TOML values: every fault is noted with its place, and reading goes on.
//!
//! An [`Item`] is a value and the way to it. Its methods return `None` where the value is not what is asked for, and
//! leave the reason in the list of errors that all items of a file share. Places are only written out for faults.

use std::cell::RefCell;

use divvy_core::input_error::{Code, InputError, InputErrors};
use divvy_core::units::Time;
use serde_json::{Map, Value};

/// The errors of one file.
pub(crate) type Errors = RefCell<InputErrors>;

/// The way from the top of a file to a value.
#[derive(Clone, Copy)]
enum Place<'a> {
    Top(&'a str),
    Key(&'a Place<'a>, &'a str),
    Index(&'a Place<'a>, usize),
}

impl Place<'_> {
    fn write(&self, text: &mut String) {
        match self {
            Place::Top(name) => text.push_str(name),
            Place::Key(parent, key) => {
                parent.write(text);
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(key);
            }
            Place::Index(parent, index) => {
                parent.write(text);
                text.push_str(&format!("[{index}]"));
            }
        }
    }
}

/// A value and the way to it.
#[derive(Clone, Copy)]
pub(crate) struct Item<'v, 'p> {
    value: &'v Value,
    place: Place<'p>,
    errors: &'p Errors,
}

impl<'v, 'p> Item<'v, 'p> {
    /// The whole of a file; `name` begins every place and may be empty.
    pub(crate) fn top(value: &'v Value, name: &'p str, errors: &'p Errors) -> Item<'v, 'p> {
        Item { value, place: Place::Top(name), errors }
    }

    pub(crate) fn value(&self) -> &'v Value {
        self.value
    }

    /// Another value in the place of this one: faults in it are noted here.
    pub(crate) fn standing_for<'c>(&self, value: &'c Value) -> Item<'c, 'p> {
        Item { value, place: self.place, errors: self.errors }
    }

    /// Notes a fault at this item.
    pub(crate) fn fault(&self, code: Code, message: impl Into<String>, fix: impl Into<String>) {
        let mut place = String::new();
        self.place.write(&mut place);
        let place = if place.is_empty() { "top of the file".to_owned() } else { place };
        let message = message.into();
        let mut errors = self.errors.borrow_mut();
        // Whoever asks a value of the wrong type for several fields finds the same fault each time.
        let said = |last: &InputError| last.code == code && last.place == place && last.message == message;
        if !errors.kept().last().is_some_and(said) {
            errors.add(code, place, message, fix);
        }
    }

    fn wrong_type<T>(&self, wanted: &str) -> Option<T> {
        let found = match self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(_) => "true or false".to_owned(),
            Value::Number(number) => format!("the number {number}"),
            Value::String(_) => "a text".to_owned(),
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "a table".to_owned(),
        };
        self.fault(Code::Type, format!("{wanted} is needed, {found} is there"), format!("write {wanted}"));
        None
    }

    fn table(&self) -> Option<&'v Map<String, Value>> {
        match self.value {
            Value::Object(map) => Some(map),
            _ => self.wrong_type("a table of named fields"),
        }
    }

    /// Whether it is a table; if not, that is noted.
    pub(crate) fn is_table(&self) -> bool {
        self.table().is_some()
    }

    /// A field; none, silently, if it is absent or null.
    pub(crate) fn optional<'b>(&'b self, key: &'b str) -> Option<Item<'v, 'b>> {
        let value = self.table()?.get(key).filter(|value| !value.is_null())?;
        Some(Item { value, place: Place::Key(&self.place, key), errors: self.errors })
    }

    /// A field that must be there.
    pub(crate) fn required<'b>(&'b self, key: &'b str) -> Option<Item<'v, 'b>> {
        self.table()?;
        let found = self.optional(key);
        if found.is_none() {
            self.fault(Code::Missing, format!("the field `{key}` is missing"), format!("add `{key}`"));
        }
        found
    }

    /// Notes every field that is not one of `known`.
    pub(crate) fn only(&self, known: &[&str]) {
        let Some(table) = self.table() else { return };
        for key in table.keys().filter(|key| !known.contains(&key.as_str())) {
            let fix = format!("the fields here are {}", known.join(", "));
            self.fault(Code::UnknownField, format!("there is no field `{key}`"), fix);
        }
    }

    /// The fields of a table, by name.
    pub(crate) fn fields<'b>(&'b self) -> Vec<(&'v str, Item<'v, 'b>)> {
        let Some(table) = self.table() else { return Vec::new() };
        let item = |(key, value): (&'v String, &'v Value)| {
            (key.as_str(), Item { value, place: Place::Key(&self.place, key), errors: self.errors })
        };
        table.iter().map(item).collect()
    }

    /// The items of a list.
    pub(crate) fn list<'b>(&'b self) -> Vec<Item<'v, 'b>> {
        let items = match self.value {
            Value::Array(items) => items.as_slice(),
            _ => self.wrong_type("a list").unwrap_or(&[]),
        };
        let item = |(i, value)| Item { value, place: Place::Index(&self.place, i), errors: self.errors };
        items.iter().enumerate().map(item).collect()
    }

    pub(crate) fn text(&self) -> Option<&'v str> {
        self.value.as_str().or_else(|| self.wrong_type("a text"))
    }

    /// True or false; 1 and 0 count.
    pub(crate) fn flag(&self) -> Option<bool> {
        match (self.value.as_bool(), self.value.as_f64()) {
            (Some(flag), _) => Some(flag),
            (None, Some(1.0)) => Some(true),
            (None, Some(0.0)) => Some(false),
            _ => self.wrong_type("true or false"),
        }
    }

    pub(crate) fn number(&self) -> Option<f64> {
        self.value.as_f64().or_else(|| self.wrong_type("a number"))
    }

    /// A whole number from 0 up; `3.0` counts as 3.
    pub(crate) fn count(&self) -> Option<u64> {
        if let Some(count) = self.value.as_u64() {
            return Some(count);
        }
        let number = self.number()?;
        // 2^63 is the first float that is certain to have lost digits of a byte count.
        if number >= 0.0 && number.fract() == 0.0 && number < 9.2e18 {
            return Some(number as u64);
        }
        self.fault(Code::Range, format!("{number} is not a whole number from 0 up"), "correct it");
        None
    }

    /// A whole number that fits an id or a small count.
    pub(crate) fn small(&self) -> Option<u32> {
        let count = self.count()?;
        let small = u32::try_from(count).ok();
        if small.is_none() {
            self.fault(Code::Range, format!("{count} is too large here"), "give a number below 4294967296");
        }
        small
    }

    /// Microseconds, from 0 up.
    pub(crate) fn microseconds(&self) -> Option<Time> {
        let number = self.number()?;
        let time = Time::from_us(number);
        if time.is_none() {
            let message = format!("{number} us is no time that an op can take");
            self.fault(Code::Range, message, "times are from 0 up to 53 days, in microseconds");
        }
        time
    }

    /// Picoseconds, a whole number from 0 up.
    pub(crate) fn picoseconds(&self) -> Option<Time> {
        let time = Time(self.count()?);
        if time > Time::LONGEST_INPUT {
            let message = format!("{} ps is no time that an op can take", time.0);
            self.fault(Code::Range, message, "times are from 0 up to 53 days, in picoseconds");
            return None;
        }
        Some(time)
    }

    /// A list with something made of each item that is sound.
    pub(crate) fn each<T>(&self, read: impl Fn(&Item<'v, '_>) -> Option<T>) -> Vec<T> {
        self.list().iter().filter_map(read).collect()
    }
}
