//! Addresses of resources: `ROLE/NAME`.

/// The role in the address of a resource; the address of a role is its name.
pub fn role_of(address: &str) -> &str {
    address.split_once('/').map_or(address, |(role, _)| role)
}

/// The resource's name in its address.
pub fn name_of(address: &str) -> &str {
    address.split_once('/').map_or(address, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_slash_parts_role_and_name() {
        assert_eq!((role_of("web/files/a b"), name_of("web/files/a b")), ("web", "files/a b"));
        assert_eq!((role_of("web"), name_of("web")), ("web", "web"));
    }
}
