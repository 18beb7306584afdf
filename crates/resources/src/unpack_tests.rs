use super::*;
use std::io::Write;

const ALL: Choice<'static> = Choice { strip: 0, only: &[] };

/// A tar.gz with these regular files, a link `l` and a directory `d/`.
pub fn tgz(files: &[(&str, u32, &[u8])]) -> Vec<u8> {
    let mut builder =
        tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (name, mode, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(bytes.len() as u64);
        header.set_mode(*mode);
        header.set_cksum();
        builder.append(&header, *bytes).unwrap();
    }
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    header.set_mode(0o777);
    builder.append_link(&mut header, "l", "d/x").unwrap();
    builder.into_inner().unwrap().finish().unwrap()
}

fn zipped(files: &[(&str, u32, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, mode, bytes) in files {
        let options = zip::write::SimpleFileOptions::default().unix_permissions(*mode);
        writer.start_file(*name, options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn tar_and_zip_are_read() {
    let files: &[(&str, u32, &[u8])] = &[("d/x", 0o4755, b"xx"), ("d/y", 0o600, b"y")];
    let tar = read(&tgz(files), &ALL).unwrap();
    let zip = read(&zipped(files), &ALL).unwrap();
    assert_eq!(tar.members["d/x"], ArchiveMember::File { mode: 0o755, size: 2, digest: Digest::of(b"xx") });
    assert_eq!(tar.members["d"], ArchiveMember::Dir { mode: 0o755 });
    assert_eq!(tar.members["l"], ArchiveMember::Link { target: "d/x".into() });
    assert_eq!(zip.members["d/y"], tar.members["d/y"]);
    assert_eq!(zip.contents[&Digest::of(b"xx")].bytes(), b"xx");
}

#[test]
fn members_are_chosen_and_stripped() {
    let bytes = tgz(&[("a/b/x", 0o644, b"x"), ("a/c", 0o644, b"c"), ("./a/b/z", 0o644, b"z")]);
    let only = ["a/b".to_owned()];
    let found = read(&bytes, &Choice { strip: 2, only: &only }).unwrap();
    assert_eq!(found.members.keys().collect::<Vec<_>>(), ["x", "z"]);
    assert!(matches!(
        read(&bytes, &Choice { strip: 9, only: &[] }),
        Err(UnpackError::NothingLeft { only: false })
    ));
}

#[test]
fn nothing_leaves_the_directory() {
    for bad in ["../x", "a/../../x", "/etc/x", "a\nb"] {
        let error = read(&tgz(&[(bad, 0o644, b"")]), &ALL).unwrap_err();
        assert!(matches!(error, UnpackError::Outside(_)), "{bad}: {error}");
    }
    let below = tgz(&[("l/x", 0o644, b"")]);
    assert!(matches!(read(&below, &ALL), Err(UnpackError::BelowMember)));
    for bad in [&b"no archive"[..], b"PK\x03\x04", &[0x1f, 0x8b, 8, 0], b"BZh9"] {
        assert!(read(bad, &ALL).is_err(), "{bad:?}");
    }
}

/// Output of GNU tar 1.34 and Info-ZIP 6.0.
#[test]
fn a_hosts_listing_is_read() {
    let (own, x, y) = (Digest::of(b"own"), Digest::of(b"xx"), Digest::of(b"y"));
    let text = format!(
        "{own}  -\ndrwxr-xr-x 0/0               0 2024-01-01 00:00 \"d/\"\n-rwsr-xr-x 1000/1000         2 2024-01-01 00:00 \"d/x \\303\\251\"\n\
         lrwxrwxrwx 0/0               0 2024-01-01 00:00 \"l\" -> \"d/x\"\n-rw------- 0/0               1 2024-01-01 00:00 \"y\"\n\
         hrw------- 0/0               0 2024-01-01 00:00 \"z\" link to \"y\"\n==\n{x}  -\n{y}  -\n"
    );
    let (sum, found) = parse(&text, false, &ALL).unwrap().unwrap();
    assert_eq!(sum, own);
    assert_eq!(found.members["d/x é"], ArchiveMember::File { mode: 0o755, size: 2, digest: x.clone() });
    assert_eq!(found.members["l"], ArchiveMember::Link { target: "d/x".into() });
    assert_eq!(found.members["z"], found.members["y"]);
    let text = format!(
        "{own}  -\ndrwxr-xr-x  3.0 unx        0 bx stor 24-Jan-01 00:00 d/\n-rw-r--r--  3.0 unx        2 tx defN 24-Jan-01 00:00 d/x y\n==\n{x}  -\n"
    );
    let (_, found) = parse(&text, true, &ALL).unwrap().unwrap();
    assert_eq!(found.members["d/x y"], ArchiveMember::File { mode: 0o644, size: 2, digest: x });
    assert!(matches!(parse("absent\n", false, &ALL), Ok(None)));
    for bad in ["", "x\n==\n", &format!("{own}  -\n-rw 0/0 1\n==\n"), &format!("{own}  -\n==\n{own}  -\n")] {
        assert!(parse(bad, false, &ALL).is_err(), "{bad}");
    }
}

proptest::proptest! {
    #[test]
    fn whatever_is_no_archive_is_an_error(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200), text in "\\PC{0,80}") {
        drop(read(&bytes, &ALL));
        drop(read(&[&[0x1f, 0x8b, 8][..], &bytes].concat(), &ALL));
        drop(read(&[&b"PK\x03\x04"[..], &bytes].concat(), &ALL));
        drop(parse(&text, false, &ALL));
    }
}
