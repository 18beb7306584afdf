//! Programs by which another user is become.

/// The program by which another user is become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// sudo: the password is the login user's, as a rule.
    Sudo,
    /// su: the password is the other user's.
    Su,
    /// doas: the password is the login user's.
    Doas,
}

impl Method {
    /// The program's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sudo => "sudo",
            Self::Su => "su",
            Self::Doas => "doas",
        }
    }
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
