//! Inventory, variables, roles and playbooks to typed declarations per host.
