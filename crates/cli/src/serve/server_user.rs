//! The user that a server of root runs as once it has no more use for root.

use sandyard_sandbox::warden::ServerUser;

use super::ServeError;

/// The system user that an installation makes.
const SYSTEM_USER: &str = "sandyard";
/// Ids for a host without that user, tried in this order: Debian and systemd leave 65520 to 65533 unused.
const UNUSED_IDS: std::ops::RangeInclusive<u32> = 65_520..=65_530;
const USERS: &str = "/etc/passwd";

/// Chooses the user: the configured one, else the system user, else an id that no user of the host has.
pub(super) fn choose(setting: Option<&str>) -> Result<ServerUser, ServeError> {
    choose_from(&std::fs::read_to_string(USERS).unwrap_or_default(), setting)
}

fn choose_from(users: &str, setting: Option<&str>) -> Result<ServerUser, ServeError> {
    let known: Vec<_> = users.lines().filter_map(parse).collect();
    let find = |wanted: &str| {
        let found = known.iter().find(|(name, user)| *name == wanted || user.uid.to_string() == wanted);
        found.map(|(_, user)| *user)
    };
    let unused = || {
        let id = UNUSED_IDS.rev().find(|id| known.iter().all(|(_, user)| user.uid != *id && user.gid != *id));
        id.map(|id| ServerUser { uid: id, gid: id })
    };
    let user = match setting {
        Some(name) => find(name),
        None => find(SYSTEM_USER).or_else(unused),
    };
    let unfit = || ServeError::User(setting.unwrap_or(SYSTEM_USER).to_owned());
    user.filter(|user| user.uid != 0 && user.gid != 0).ok_or_else(unfit)
}

/// Parses a line of passwd(5): name, password, user id, group id, and more.
fn parse(line: &str) -> Option<(&str, ServerUser)> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    let mut numbers = fields.skip(1).map_while(|field| field.parse().ok());
    Some((name, ServerUser { uid: numbers.next()?, gid: numbers.next()? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str =
        "root:x:0:0:root:/root:/bin/bash\nsync:x:4:65530:sync:/bin:/bin/sync\nann:x:1000:1001::/:\n";

    fn chosen(users: &str, setting: Option<&str>) -> Option<(u32, u32)> {
        choose_from(users, setting).ok().map(|user| (user.uid, user.gid))
    }

    #[test]
    fn the_configured_user_comes_first_and_root_never() {
        assert_eq!(chosen(HOST, Some("ann")), Some((1000, 1001)));
        assert_eq!(chosen(HOST, Some("1000")), Some((1000, 1001)));
        assert_eq!(chosen(HOST, Some("root")), None);
        assert_eq!(chosen(HOST, Some("nobody-here")), None);
        let with_system_user = format!("{HOST}sandyard:x:998:997::/:/usr/sbin/nologin\n");
        assert_eq!(chosen(&with_system_user, None), Some((998, 997)));
    }

    #[test]
    fn without_a_system_user_an_unused_id_is_taken() {
        assert_eq!(chosen("", None), Some((65_530, 65_530)));
        assert_eq!(chosen(HOST, None), Some((65_529, 65_529)));
    }
}
