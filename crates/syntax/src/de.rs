//! Typed values out of nodes, by serde: errors keep the place of the node at fault.

mod error;

pub use error::DeError;
use error::{UNKNOWN_KEY, UNKNOWN_VALUE, WRONG_TYPE, list_of, unknown_key, wanted};

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Expected, IntoDeserializer, MapAccess,
    SeqAccess, VariantAccess, Visitor,
};

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::node::{Node, Value};
use crate::spanned::{NODE, SPANNED, hand_node, hand_span};

/// Reads a typed value out of a node.
///
/// # Errors
/// One diagnostic for each mismatch: a wrong type, or an unknown, missing or misspelt key, with its place.
pub fn from_node<T: DeserializeOwned>(node: &Node) -> Result<T, Diagnostics> {
    T::deserialize(node).map_err(|error| error.or_span(node.head_span()).into_diagnostics())
}

impl Node {
    /// Describes the node for a message. The text is quoted only if it stands in the source, since a rendered value may be a
    /// secret.
    pub fn describe(&self) -> String {
        let kind = self.value.kind();
        let shown = match &self.value {
            Value::List(_) | Value::Map(_) | Value::Null => None,
            _ => self.scalar_text(),
        };
        match shown {
            Some(text)
                if !text.is_empty() && text.chars().count() <= 40 && self.span.text().contains(&text) =>
            {
                let kind = kind.strip_prefix("a ").or_else(|| kind.strip_prefix("an ")).unwrap_or(kind);
                format!("the {kind} `{text}`")
            }
            _ => kind.to_owned(),
        }
    }

    fn wrong(&self, expected: &dyn Expected) -> DeError {
        let wanted = wanted(expected);
        let mut error = DeError::new(WRONG_TYPE, format!("expected {wanted}, found {}", self.describe()));
        let literal = self.span.text().trim();
        let scalar = !literal.is_empty() && !literal.contains('\n');
        let help = match &self.value {
            Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Float(_)
                if wanted.contains("string") && scalar =>
            {
                Some(format!("write it in quotes: \"{literal}\""))
            }
            Value::Null => Some("there is no value here: write one, or remove the key".to_owned()),
            Value::String(text) if wanted.contains("integer") && text.parse::<i64>().is_ok() && scalar => {
                Some("write it without quotes".to_owned())
            }
            Value::String(_) | Value::Map(_) if wanted == "a list" => {
                Some("a list has a line `- item` for each item".to_owned())
            }
            _ => None,
        };
        error = error.or_help(help);
        error.or_span(self.head_span())
    }

    fn here<T>(&self, result: Result<T, DeError>) -> Result<T, DeError> {
        result.map_err(|error| error.or_span(self.head_span()))
    }

    fn visit_list<'de, V: Visitor<'de>>(items: &'de [Self], visitor: V) -> Result<V::Value, DeError> {
        let mut access = Items(items.iter());
        let value = visitor.visit_seq(&mut access)?;
        match access.0.next() {
            None => Ok(value),
            Some(extra) => Err(DeError::new(
                "invalid-length",
                format!("the list is too long: its length is {}", items.len()),
            )
            .or_span(extra.head_span())),
        }
    }

    fn visit_entries<'de, V: Visitor<'de>>(
        entries: &'de [(Self, Self)],
        fields: Option<&'static [&'static str]>,
        visitor: V,
    ) -> Result<V::Value, DeError> {
        visitor.visit_map(MapNode { entries: entries.iter(), value: None, fields })
    }
}

macro_rules! number {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
            match self.value {
                Value::Int(value) => self.here(visitor.visit_i64(value)),
                Value::UInt(value) => self.here(visitor.visit_u64(value)),
                _ => Err(self.wrong(&visitor)),
            }
        })*
    };
}

macro_rules! text {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
            match &self.value {
                Value::String(text) => self.here(visitor.visit_borrowed_str(text)),
                _ => Err(self.wrong(&visitor)),
            }
        })*
    };
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = DeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.here(match &self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Int(value) => visitor.visit_i64(*value),
            Value::UInt(value) => visitor.visit_u64(*value),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::List(items) => Node::visit_list(items, visitor),
            Value::Map(entries) => Node::visit_entries(entries, None, visitor),
        })
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.value {
            Value::Bool(value) => self.here(visitor.visit_bool(value)),
            _ => Err(self.wrong(&visitor)),
        }
    }

    number! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    }

    text! { deserialize_str deserialize_string deserialize_char deserialize_identifier }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.as_f64() {
            Some(value) => self.here(visitor.visit_f64(value)),
            None => Err(self.wrong(&visitor)),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.deserialize_any(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.here(if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) })
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        if self.is_null() { self.here(visitor.visit_unit()) } else { Err(self.wrong(&visitor)) }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, DeError> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DeError> {
        match name {
            SPANNED => hand_span(&self.span),
            NODE => hand_node(self),
            _ => {}
        }
        self.here(visitor.visit_newtype_struct(self))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match &self.value {
            Value::List(items) => self.here(Node::visit_list(items, visitor)),
            _ => Err(self.wrong(&visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, DeError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, DeError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match &self.value {
            Value::Map(entries) => self.here(Node::visit_entries(entries, None, visitor)),
            _ => Err(self.wrong(&visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        match &self.value {
            Value::Map(entries) => self.here(Node::visit_entries(entries, Some(fields), visitor)),
            _ => Err(self.wrong(&visitor)),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        let access = match &self.value {
            Value::String(_) => EnumNode { variants, name: self, content: None },
            Value::Map(entries) => match entries.as_slice() {
                [(name, content)] => EnumNode { variants, name, content: Some(content) },
                _ => {
                    let message = format!("expected exactly one of {}", list_of(variants));
                    return Err(DeError::new(WRONG_TYPE, message).or_span(self.head_span()));
                }
            },
            _ => {
                let message = format!("expected {}, found {}", list_of(variants), self.describe());
                return Err(DeError::new(WRONG_TYPE, message).or_span(self.head_span()));
            }
        };
        self.here(visitor.visit_enum(access))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        visitor.visit_unit()
    }
}

impl<'de> IntoDeserializer<'de, DeError> for &'de Node {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

struct Items<'de>(std::slice::Iter<'de, Node>);

impl<'de> SeqAccess<'de> for &mut Items<'de> {
    type Error = DeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, DeError> {
        self.0.next().map(|item| item.here(seed.deserialize(item))).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

struct MapNode<'de> {
    entries: std::slice::Iter<'de, (Node, Node)>,
    value: Option<&'de Node>,
    fields: Option<&'static [&'static str]>,
}

impl MapNode<'_> {
    /// The other keys of the map that its struct does not know either.
    fn other_unknown_keys(&self) -> Vec<Diagnostic> {
        let Some(fields) = self.fields else { return Vec::new() };
        self.entries
            .clone()
            .filter_map(|(key, _)| {
                let name = key.scalar_text().filter(|name| !fields.contains(&name.as_str()))?;
                let (message, help) = unknown_key(&name, fields);
                Some(Diagnostic::error(UNKNOWN_KEY, message).at(&key.span).help(help))
            })
            .collect()
    }
}

impl<'de> MapAccess<'de> for MapNode<'de> {
    type Error = DeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DeError> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.value = Some(value);
        let read =
            if key.as_str().is_some() { seed.deserialize(key) } else { seed.deserialize(KeyNode(key)) };
        read.map(Some).map_err(|error| {
            let error = error.or_span(&key.span);
            if error.code() == UNKNOWN_KEY { error.and(self.other_unknown_keys()) } else { error }
        })
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DeError> {
        match self.value.take() {
            Some(value) => value.here(seed.deserialize(value)),
            None => Err(DeError::new("invalid-value", "a value was read before its key")),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// A key that is not a string: where a string is wanted, its text serves.
struct KeyNode<'de>(&'de Node);

impl<'de> KeyNode<'de> {
    fn text<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.0.scalar_text() {
            Some(text) => visitor.visit_string(text),
            None => Err(self.0.wrong(&visitor)),
        }
    }
}

macro_rules! key_forward {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
            self.0.$method(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for KeyNode<'de> {
    type Error = DeError;

    key_forward! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64
        deserialize_bytes deserialize_byte_buf deserialize_option deserialize_unit deserialize_seq
        deserialize_map deserialize_ignored_any deserialize_i128 deserialize_u128
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.text(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.text(visitor)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.text(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.text(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DeError> {
        match name {
            SPANNED => hand_span(&self.0.span),
            NODE => hand_node(self.0),
            _ => {}
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DeError> {
        self.0.deserialize_unit_struct(name, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, DeError> {
        self.0.deserialize_tuple(length, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, DeError> {
        self.0.deserialize_tuple_struct(name, length, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        self.0.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        self.0.deserialize_enum(name, variants, visitor)
    }
}

struct EnumNode<'de> {
    variants: &'static [&'static str],
    name: &'de Node,
    content: Option<&'de Node>,
}

impl<'de> EnumAccess<'de> for EnumNode<'de> {
    type Error = DeError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), DeError> {
        let text = self.name.scalar_text().unwrap_or_default();
        let name: StrDeserializer<'_, DeError> = text.as_str().into_deserializer();
        let value = seed.deserialize(name).map_err(|error| {
            // A rendered value may be a secret: it is not repeated.
            let error = if error.code() == UNKNOWN_VALUE && !self.name.span.text().contains(&text) {
                DeError::new(UNKNOWN_VALUE, "unknown value")
                    .or_help(Some(format!("known here: {}", list_of(self.variants))))
            } else {
                error
            };
            error.or_span(&self.name.span)
        })?;
        Ok((value, self))
    }
}

impl<'de> EnumNode<'de> {
    fn content(&self) -> Result<&'de Node, DeError> {
        self.content.ok_or_else(|| {
            let name = self.name.scalar_text().unwrap_or_default();
            DeError::new(WRONG_TYPE, format!("`{name}` needs a value: write `{name}: …`"))
                .or_span(&self.name.span)
        })
    }
}

impl<'de> VariantAccess<'de> for EnumNode<'de> {
    type Error = DeError;

    fn unit_variant(self) -> Result<(), DeError> {
        match self.content {
            Some(content) if !content.is_null() => {
                let name = self.name.scalar_text().unwrap_or_default();
                Err(DeError::new(WRONG_TYPE, format!("`{name}` takes no value")).or_span(content.head_span()))
            }
            _ => Ok(()),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, DeError> {
        let content = self.content()?;
        content.here(seed.deserialize(content))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, DeError> {
        self.content()?.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        self.content()?.deserialize_struct("", fields, visitor)
    }
}
