//! Keeping the place of a value in a typed struct, and nodes inside typed structs.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, EnumAccess, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::node::{Node, Value};
use crate::source::Span;

/// Names of newtype structs by which the node deserializer knows these two types.
pub(crate) const SPANNED: &str = "$converge_syntax::Spanned";
pub(crate) const NODE: &str = "$converge_syntax::Node";

thread_local! {
    // serde has no way to pass our value from a deserializer to a visitor; this carries it over that one call.
    static SPAN: RefCell<Option<Span>> = const { RefCell::new(None) };
    static NODE_VALUE: RefCell<Option<Node>> = const { RefCell::new(None) };
}

pub(crate) fn hand_span(span: &Span) {
    SPAN.with(|cell| cell.replace(Some(span.clone())));
}

pub(crate) fn hand_node(node: &Node) {
    NODE_VALUE.with(|cell| cell.replace(Some(node.clone())));
}

/// A value of a typed struct with the place it was written at. Equality and serialisation see the value alone.
#[derive(Clone)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// The place; a span in no file if the value was not read from a node.
    pub span: Span,
}

impl<T> Spanned<T> {
    /// A value at a place.
    pub fn new(value: T, span: Span) -> Self {
        Self { value, span }
    }
}

impl<T> Deref for Spanned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Spanned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T: PartialEq> PartialEq for Spanned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Spanned<T> {}

impl<T: Serialize> Serialize for Spanned<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Spanned<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SpannedVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for SpannedVisitor<T> {
            type Value = Spanned<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Self::Value, D::Error> {
                let span = SPAN.with(|cell| cell.take()).unwrap_or_else(|| Span::nowhere("value"));
                Ok(Spanned { value: T::deserialize(inner)?, span })
            }
        }

        SPAN.with(|cell| cell.take());
        deserializer.deserialize_newtype_struct(SPANNED, SpannedVisitor(PhantomData))
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.value {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Int(value) => serializer.serialize_i64(*value),
            Value::UInt(value) => serializer.serialize_u64(*value),
            Value::Float(value) => serializer.serialize_f64(*value),
            Value::String(text) => serializer.serialize_str(text),
            Value::List(items) => serializer.collect_seq(items),
            Value::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    /// From a node: itself, with place and tags. From another format: the values, in no file.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        NODE_VALUE.with(|cell| cell.take());
        deserializer.deserialize_newtype_struct(NODE, NodeVisitor)
    }
}

struct NodeVisitor;

impl NodeVisitor {
    fn made<E>(value: impl Into<Value>) -> Result<Node, E> {
        Ok(Node::new(value, Span::nowhere("value")))
    }
}

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Node, D::Error> {
        match NODE_VALUE.with(|cell| cell.take()) {
            Some(node) => Ok(node),
            None => inner.deserialize_any(Self),
        }
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Self::made(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Self::made(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Node, D::Error> {
        inner.deserialize_any(Self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Self::made(value)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Self::made(value)
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Self::made(value)
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Self::made(value)
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Self::made(value)
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Self::made(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Self::made(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Self::made(Value::Map(entries))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, _: A) -> Result<Node, A::Error> {
        Err(serde::de::Error::custom("an enum is not a node"))
    }
}
