//! Changes that must be made on a host before an item can be planned: each is an item of its own.

use crate::pass::{Pass, plan_change};
use crate::{Item, Outcome};
use converge_resource::{Change, First};

/// Set in the number of an item that comes before a declared one. The rest of the number is that of the declared one.
const BEFORE: u32 = 1 << 31;
const COUNT: u32 = 29;

/// The sort key of an item on its host, from its number: an item that must come first sorts just before the one that needs
/// it.
pub fn place(id: u32) -> (u32, u32) {
    let declared = id & ((1 << COUNT) - 1);
    if id & BEFORE == 0 { (declared, u32::MAX) } else { (declared, id >> COUNT) }
}

impl Pass<'_> {
    /// Plans the item that makes this change, the `count`th before `item`.
    pub(crate) fn put_first(&mut self, first: First, count: u32, item: &mut Item) {
        let First { name, object, from, to, why } = first;
        let id = BEFORE | (count << COUNT) | item.id;
        let address = format!("{}: {name}", item.address);
        let change = Change { object: object.clone(), from, to: to.clone() };
        self.virtual_host.set(object.clone(), to);
        self.virtual_host.note_change(&address, std::slice::from_ref(&change));
        let before = Item {
            id,
            address,
            name: format!("{}: {name}", item.name),
            role: item.role.clone(),
            kind: item.kind.clone(),
            location: item.location.clone(),
            needs: item.needs.clone(),
            outcome: Outcome::Changed(vec![plan_change(change)]),
            notes: vec![why],
            sensitive: item.sensitive || self.holds_secret(std::slice::from_ref(&object)),
            ..Item::default()
        };
        item.needs.push(id);
        self.last_of_role.insert(item.role.clone(), id);
        self.last_on_object.insert(object, id);
        self.out.plan.items.push(before);
    }
}
