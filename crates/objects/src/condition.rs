//! Something that is waited for on a cluster. Its key is the question as JSON text ([`TimedCondition`]): see the kind `k8s_wait`.

mod jsonpath;
mod question;

pub use jsonpath::{FieldQuery, QueryError};
pub use question::{
    Amount, ConditionVerdict, CountTest, Expectation, Pick, Test, TimedCondition, quantity, ready,
};

use converge_resource::{DynNeeds, ErasedObject, Facets, Needs, Object, Place, Traits, state_of_words};

/// Whether it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionState {
    /// It does not hold yet.
    Open,
    /// It holds.
    Met,
}

impl ConditionState {
    fn words(&self) -> Vec<String> {
        vec![if *self == Self::Met { "met" } else { "open" }.to_owned()]
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["met"] => Some(Self::Met),
            ["open"] => Some(Self::Open),
            _ => None,
        }
    }
}

state_of_words!(ConditionState);

/// The object.
pub struct Condition;

impl Object for Condition {
    const KIND: &'static str = "condition";
    const SHELL: &'static str = "";
    const PLACE: Place = Place::Cluster;
    const TRAITS: Traits = Traits { passes: true, ..Traits::NONE };
    const NEEDS: &'static dyn DynNeeds = &ErasedObject::<Self>::new();
    type State = ConditionState;

    fn title(key: &str, _: &ConditionState, _: &ConditionState) -> String {
        TimedCondition::from_key(key)
            .map_or_else(|| "wait".to_owned(), |wait| format!("wait until {}", wait.shown()))
    }

    fn facets(state: &ConditionState) -> Facets {
        vec![("condition", if *state == ConditionState::Met { "holds" } else { "open" }.to_owned())]
    }
}

impl Needs for Condition {
    fn patience(key: &str) -> Option<u64> {
        TimedCondition::from_key(key).map(|wait| wait.seconds)
    }
}
