//! JSON text as values, refused where a key of a table is given twice or where the values would take too much memory.
//!
//! What a value takes is counted as it is read, at what it really takes: a short text may unpack to millions of them.

use std::cell::Cell;
use std::fmt;

use divvy_core::input_error::{Code, InputError};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The most bytes that the values of a text may take.
pub(crate) const MOST_BYTES: usize = 2 << 30;

/// Lists grow by doubling: half of what was reserved last may be empty, and is reserved nevertheless.
const BYTES_PER_VALUE: usize = size_of::<Value>() * 3 / 2;

/// A field of a table: the key and the value, and its place in the table's index.
const BYTES_PER_FIELD: usize = (size_of::<Value>() + size_of::<String>() + 16) * 3 / 2;

/// What a table takes before its first field.
const BYTES_PER_TABLE: usize = 160;

/// The value of a text that is JSON.
pub(crate) fn parse(text: &str, most_bytes: usize) -> Result<Value, InputError> {
    let budget = Budget { left: Cell::new(most_bytes), refused: Cell::new(None) };
    let mut parser = serde_json::Deserializer::from_str(text);
    let parsed = Values(&budget).deserialize(&mut parser).and_then(|value| parser.end().map(|()| value));
    parsed.map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        let said = error.to_string();
        let message = said.split(" at line ").next().unwrap_or(&said).to_owned();
        match budget.refused.get() {
            Some(Refusal::TooLarge) => {
                let fix = "coarsen the model, or keep weights out of the file";
                let what = format!("its values would take more than {} MiB of memory", most_bytes >> 20);
                InputError::new(Code::TooLarge, "file", what, fix)
            }
            Some(Refusal::GivenTwice) => {
                let fix = "keep one of the two: which of them counts is not known";
                InputError::new(Code::DuplicateName, place, message, fix)
            }
            None => {
                let fix = "correct the text; NaN, Infinity and comments are not JSON";
                InputError::new(Code::Syntax, place, format!("not JSON: {message}"), fix)
            }
        }
    })
}

/// Why reading ended although the text is JSON.
#[derive(Clone, Copy)]
enum Refusal {
    TooLarge,
    GivenTwice,
}

struct Budget {
    left: Cell<usize>,
    refused: Cell<Option<Refusal>>,
}

impl Budget {
    fn take<E: Error>(&self, bytes: usize) -> Result<(), E> {
        match self.left.get().checked_sub(bytes) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => {
                self.refused.set(Some(Refusal::TooLarge));
                Err(E::custom("too large"))
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Values<'a>(&'a Budget);

impl<'de> DeserializeSeed<'de> for Values<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Values<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.0.take(text.len())?;
        Ok(Value::String(text.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(self)? {
            self.0.take(BYTES_PER_VALUE)?;
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Value, A::Error> {
        self.0.take(BYTES_PER_TABLE)?;
        let mut fields = Map::new();
        while let Some(key) = table.next_key::<String>()? {
            self.0.take(BYTES_PER_FIELD + key.len())?;
            if fields.contains_key(&key) {
                self.0.refused.set(Some(Refusal::GivenTwice));
                return Err(A::Error::custom(format!("the key `{key}` is given twice")));
            }
            let value = table.next_value_seed(self)?;
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str, most_bytes: usize) -> Option<Code> {
        parse(text, most_bytes).err().map(|error| error.code)
    }

    #[test]
    fn values_are_those_of_the_text() {
        let text = r#"{"a": [1, -2, 3.5, "x\n", null, true, {}], "b": {"a": 18446744073709551615}}"#;
        assert_eq!(parse(text, MOST_BYTES).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        for wrong in ["{", "[1,]", "{} {}", "NaN", "", "{\"a\" 1}"] {
            assert_eq!(code(wrong, MOST_BYTES), Some(Code::Syntax), "{wrong}");
        }
    }

    #[test]
    fn keys_given_twice_are_refused_with_their_place() {
        let error = parse("{\"a\": 1,\n \"b\": {\"c\": 1, \"c\": 1}}", MOST_BYTES).unwrap_err();
        assert_eq!(error.code, Code::DuplicateName);
        assert!(error.place.starts_with("line 2") && error.message.contains("`c`"), "{error}");
        // In one table, that is.
        assert_eq!(code(r#"[{"a": 1}, {"a": {"a": 1}}]"#, MOST_BYTES), None);
    }

    #[test]
    fn what_takes_too_much_memory_is_refused_before_it_takes_it() {
        for many in ["[]", "1", "{\"a\":{}}", "\"a text that is not so short\""] {
            let text = format!("[{}{many}]", format!("{many},").repeat(100_000));
            assert_eq!(code(&text, 1 << 20), Some(Code::TooLarge), "{many}");
            assert_eq!(code(&text, 1 << 26), None, "{many}");
        }
    }
}
