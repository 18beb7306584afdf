//! Objects without their types, as registries and executors use them.

use super::typed::typed;
use super::{
    AttributeChange, Change, DriftScript, DynActionPart, DynClusterPart, DynEffects, DynLinks, DynNeeds,
    DynNodePart, DynRelations, DynSharedObject, ErasedObject, Object, Reversibility, Traits,
};
use crate::{AnswerError, Digest, Disruption, Observation, Place, State, Step};
use std::collections::BTreeMap;

/// [`Object`] without its types, as registries and executors use it.
pub trait DynObject: Send + Sync {
    /// [`Object::KIND`].
    fn kind(&self) -> &'static str;
    /// [`Object::SHELL`].
    fn shell(&self) -> &'static str;
    /// [`Object::PLACE`].
    fn place(&self) -> Place;
    /// [`Object::TRAITS`].
    fn traits(&self) -> Traits;
    /// [`Object::LINKS`].
    fn links(&self) -> &'static dyn DynLinks;
    /// [`Object::RELATIONS`].
    fn relations(&self) -> &'static dyn DynRelations;
    /// [`Object::EFFECTS`].
    fn effects(&self) -> &'static dyn DynEffects;
    /// [`Object::SHARED`].
    fn shared(&self) -> &'static dyn DynSharedObject;
    /// [`Object::NODE`].
    fn node(&self) -> &'static dyn DynNodePart;
    /// [`Object::CLUSTER`].
    fn cluster(&self) -> &'static dyn DynClusterPart;
    /// [`Object::NEEDS`].
    fn needs(&self) -> &'static dyn DynNeeds;
    /// [`Object::ACTION`].
    fn action(&self) -> &'static dyn DynActionPart;
    /// [`Object::fulfils`]; bad states are compared as they are.
    fn fulfils(&self, now: &State, planned: &State) -> bool;
    /// Parses the answer of `cv_see_KIND` to these keys. Every key gets an observation, or the error.
    fn parse(&self, keys: &[&str], answer: &str) -> BTreeMap<String, Result<Observation, AnswerError>>;
    /// [`Object::title`]; of a bad state only that it changes.
    fn title(&self, change: &Change) -> String;
    /// [`Object::steps`].
    ///
    /// # Errors
    /// A state that is not of this object.
    fn steps(&self, changes: &[&Change]) -> Result<Vec<Step>, crate::BadState>;
    /// [`Object::reversibility`]; a bad state is irreversible.
    fn reversibility(&self, change: &Change) -> Reversibility;
    /// [`Object::opaque`]; a bad state is opaque.
    fn opaque(&self, change: &Change) -> bool;
    /// [`Object::attributes`]; a bad state shows its lines.
    fn attributes(&self, change: &Change) -> Vec<AttributeChange>;
    /// [`Object::content`].
    fn content(&self, state: &State) -> Option<Digest>;
    /// [`Object::disruption`]; a bad state disrupts nothing: it cannot be applied.
    fn disruption(&self, from: &State, to: Option<&State>) -> Disruption;
    /// [`Object::amid`]; not for a bad state.
    fn amid(&self, change: &Change, now: &State) -> bool;
    /// [`Object::drifts`]; none for a bad state.
    fn drifts(&self, key: &str, state: &State) -> Vec<DriftScript>;
}

impl<O: Object> DynObject for ErasedObject<O> {
    fn kind(&self) -> &'static str {
        O::KIND
    }
    fn shell(&self) -> &'static str {
        O::SHELL
    }
    fn place(&self) -> Place {
        O::PLACE
    }
    fn traits(&self) -> Traits {
        O::TRAITS
    }
    fn links(&self) -> &'static dyn DynLinks {
        O::LINKS
    }
    fn relations(&self) -> &'static dyn DynRelations {
        O::RELATIONS
    }
    fn effects(&self) -> &'static dyn DynEffects {
        O::EFFECTS
    }
    fn shared(&self) -> &'static dyn DynSharedObject {
        O::SHARED
    }
    fn node(&self) -> &'static dyn DynNodePart {
        O::NODE
    }
    fn cluster(&self) -> &'static dyn DynClusterPart {
        O::CLUSTER
    }
    fn needs(&self) -> &'static dyn DynNeeds {
        O::NEEDS
    }
    fn action(&self) -> &'static dyn DynActionPart {
        O::ACTION
    }
    fn fulfils(&self, now: &State, planned: &State) -> bool {
        match (O::State::try_from(now.clone()), O::State::try_from(planned.clone())) {
            (Ok(now), Ok(planned)) => O::fulfils(&now, &planned),
            _ => now == planned,
        }
    }
    fn parse(&self, keys: &[&str], answer: &str) -> BTreeMap<String, Result<Observation, AnswerError>> {
        crate::answer::parse::<O::State>(keys, answer)
    }
    fn title(&self, change: &Change) -> String {
        let key = &change.object.key;
        typed::<O>(change).map_or_else(|_| format!("change {key}"), |(from, to)| O::title(key, &from, &to))
    }
    fn steps(&self, changes: &[&Change]) -> Result<Vec<Step>, crate::BadState> {
        let typed = changes
            .iter()
            .map(|c| typed::<O>(c).map(|(from, to)| (c.object.key.as_str(), from, to)))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(O::steps(&typed))
    }
    fn reversibility(&self, change: &Change) -> Reversibility {
        match typed::<O>(change) {
            Ok((from, to)) => O::reversibility(&change.object.key, &from, &to),
            Err(e) => Reversibility::Irreversible(e.to_string()),
        }
    }
    fn opaque(&self, change: &Change) -> bool {
        typed::<O>(change).map_or(true, |(from, to)| O::opaque(&from, &to))
    }
    fn attributes(&self, change: &Change) -> Vec<AttributeChange> {
        match typed::<O>(change) {
            Ok((from, to)) => O::attributes(&from, &to),
            Err(_) => vec![AttributeChange {
                name: "state".to_owned(),
                before: Some(change.from.line().to_owned()),
                after: Some(change.to.line().to_owned()),
            }],
        }
    }
    fn content(&self, state: &State) -> Option<Digest> {
        O::State::try_from(state.clone()).ok().and_then(|s| O::content(&s))
    }
    fn disruption(&self, from: &State, to: Option<&State>) -> Disruption {
        let Ok(from) = O::State::try_from(from.clone()) else { return Disruption::None };
        match to.map(|to| O::State::try_from(to.clone())) {
            None => O::disruption(&from, None),
            Some(Ok(to)) => O::disruption(&from, Some(&to)),
            Some(Err(_)) => Disruption::None,
        }
    }
    fn amid(&self, change: &Change, now: &State) -> bool {
        let states =
            typed::<O>(change).and_then(|(from, to)| Ok((from, to, O::State::try_from(now.clone())?)));
        states.is_ok_and(|(from, to, now)| O::amid(&from, &to, &now))
    }
    fn drifts(&self, key: &str, state: &State) -> Vec<DriftScript> {
        O::State::try_from(state.clone()).map(|s| O::drifts(key, &s)).unwrap_or_default()
    }
}
