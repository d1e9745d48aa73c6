//! Connection strings such as `host:6379,password=…,ssl=true`, and the URL that they come to.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::keys::quoted;
use crate::suggest;

/// Options that change how this software connects, or nothing that matters to a lease.
const WITHOUT_MEANING: &[&str] = &[
    "abortconnect",
    "allowadmin",
    "asynctimeout",
    "channelprefix",
    "checkcertificaterevocation",
    "clientname",
    "configchannel",
    "configcheckseconds",
    "connectretry",
    "connecttimeout",
    "heartbeatinterval",
    "highintegrity",
    "keepalive",
    "name",
    "preservesyncorder",
    "proxy",
    "protocol",
    "resolvedns",
    "responsetimeout",
    "setclientlibrary",
    "sslprotocols",
    "synctimeout",
    "tiebreaker",
    "tunnel",
    "version",
    "writebuffer",
];

const WITH_MEANING: &[&str] = &["defaultDatabase", "password", "serviceName", "ssl", "sslHost", "user"];

#[derive(Default)]
struct Connection {
    hosts: Vec<String>,
    user: Option<String>,
    password: Option<String>,
    tls: bool,
    server_name: Option<String>,
    master: Option<String>,
    database: Option<u32>,
}

/// Makes a connection string, or a URL, the URL of a store whose leases lie at `key`.
pub(super) fn url(connection: &str, key: &str) -> Result<String, String> {
    let key = format!("key={}", encoded(key));
    if connection.contains("://") {
        let sign = if connection.contains('?') { '&' } else { '?' };
        return Ok(format!("{connection}{sign}{key}"));
    }
    let Connection { hosts, user, password, tls, server_name, master, database } = parse(connection)?;
    let port = match (&master, tls) {
        (Some(_), _) => 26379,
        (None, true) => 6380,
        (None, false) => 6379,
    };
    let hosts: Vec<String> = hosts.iter().map(|host| with_port(host, port)).collect();
    if hosts.len() > 1 && master.is_none() {
        return Err("names several servers without serviceName=: say what they are with --store: \
                    redis+cluster://a,b,c or redis+sentinel://a,b,c/mymaster"
            .to_owned());
    }
    let login = match (user, password) {
        (Some(user), Some(password)) => format!("{}:{}@", encoded(&user), encoded(&password)),
        (None, Some(password)) => format!(":{}@", encoded(&password)),
        (Some(_), None) => return Err("has a user without a password: give both".to_owned()),
        (None, None) => String::new(),
    };
    let hosts = hosts.join(",");
    let mut options = vec![key];
    if let Some(name) = server_name {
        options.push(format!("server_name={}", encoded(&name)));
    }
    let place = match master {
        Some(master) => {
            options.extend(tls.then(|| "tls=true".to_owned()));
            options.extend(database.map(|number| format!("db={number}")));
            format!("redis+sentinel://{login}{hosts}/{}", encoded(&master))
        }
        None => {
            let scheme = if tls { "rediss" } else { "redis" };
            format!("{scheme}://{login}{hosts}/{}", database.unwrap_or(0))
        }
    };
    Ok(format!("{place}?{}", options.join("&")))
}

fn parse(text: &str) -> Result<Connection, String> {
    let mut connection = Connection::default();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let Some((option, value)) = part.split_once('=') else {
            connection.hosts.push(part.to_owned());
            continue;
        };
        let (option, value) = (option.trim(), value.trim());
        match option.to_ascii_lowercase().as_str() {
            "password" => connection.password = Some(value.to_owned()),
            "user" => connection.user = Some(value.to_owned()),
            "servicename" => connection.master = Some(value.to_owned()),
            "sslhost" => {
                connection.server_name = Some(value.to_owned());
                connection.tls = true;
            }
            "ssl" => {
                let wrong = || format!("has ssl={}: write true or false", quoted(value));
                connection.tls = value.to_ascii_lowercase().parse().map_err(|_| wrong())?;
            }
            "defaultdatabase" => {
                let wrong = || format!("has defaultDatabase={}: write its number, such as 0", quoted(value));
                connection.database = Some(value.parse().map_err(|_| wrong())?);
            }
            option if WITHOUT_MEANING.contains(&option) => {}
            _ => {
                let hint = suggest::did_you_mean(option, WITH_MEANING.iter().copied());
                let hint = hint.map(|hint| format!(": {hint}")).unwrap_or_default();
                return Err(format!("has the unknown option {}{hint}", quoted(option)));
            }
        }
    }
    if connection.hosts.is_empty() {
        return Err("names no server: write host:port first".to_owned());
    }
    Ok(connection)
}

fn with_port(host: &str, port: u16) -> String {
    let behind_brackets = host.rsplit(']').next().unwrap_or(host);
    if behind_brackets.contains(':') { host.to_owned() } else { format!("{host}:{port}") }
}

pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_string_comes_to_a_url() {
        for (connection, expected) in [
            ("h", "redis://h:6379/0?key=k"),
            ("h:7000,abortConnect=false", "redis://h:7000/0?key=k"),
            ("h,password=p@=ss,ssl=True", "rediss://:p%40%3Dss@h:6380/0?key=k"),
            ("[::1]:7,user=u,password=p,defaultDatabase=2", "redis://u:p@[::1]:7/2?key=k"),
            ("a,b:1, serviceName=shop ,ssl=true", "redis+sentinel://a:26379,b:1/shop?key=k&tls=true"),
            ("redis://h:1/2", "redis://h:1/2?key=k"),
            ("rediss://h?ca=/x", "rediss://h?ca=/x&key=k"),
        ] {
            assert_eq!(url(connection, "k").as_deref(), Ok(expected), "{connection}");
        }
        for (connection, wants) in [
            ("", "names no server"),
            ("password=hush", "names no server"),
            ("a,b,password=hush", "serviceName="),
            ("a,pasword=hush", "\"password\""),
            ("a,ssl=hm", "true or false"),
            ("a,user=u", "give both"),
        ] {
            let error = url(connection, "k").unwrap_err();
            assert!(error.contains(wants) && !error.contains("hush"), "{connection}: {error}");
        }
    }
}
