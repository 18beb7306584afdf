//! Edits of files that an earlier item unpacks.

use super::*;

#[test]
fn an_edit_of_a_file_that_is_unpacked_first_is_of_its_content_in_the_archive() {
    let kinds = [("r", Kind::Unpack(FOO, true)), ("r", Kind::Append(FOO, "z"))];
    // The host answers the question for the member with this text.
    let new = planned(&kinds, host(&[]));
    assert_eq!(text_after(&new, 1), "saidz\n");
    let unpacked = file("said").1.digest().clone();
    assert!(new.plan.contents.contains_key(&unpacked), "the diff of the edit shows it");
    let edited = planned(&kinds, host(&[(FOO, "saidz\n")]));
    assert!(edited.plan.is_empty(), "{:?}", edited.plan.items);
    let drifted = planned(&kinds, host(&[(FOO, "other\n")]));
    assert_eq!(text_after(&drifted, 1), "saidz\n");
}

#[test]
fn an_edit_of_content_that_nobody_can_know_says_so() {
    let kinds = [("r", Kind::Unpack(FOO, false)), ("r", Kind::Append(FOO, "z"))];
    for files in [&[][..], &[(FOO, "saidz\n")][..]] {
        let folded = planned(&kinds, host(files));
        let Outcome::Failed(problem) = outcome(&folded, 1) else { panic!("{:?}", outcome(&folded, 1)) };
        assert_eq!(problem.message, "/etc/foo is written by `r/0`, and the content is not known before");
    }
}
