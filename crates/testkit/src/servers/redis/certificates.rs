//! Certificates for one test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use crate::servers::Program;

/// An authority, what it has signed, and an authority that nobody knows; made by `openssl`, for this test only.
#[derive(Debug)]
pub struct Certificates {
    directory: PathBuf,
}

impl Certificates {
    /// Makes new ones in a directory that is not there yet. The server's is for 127.0.0.1 and `localhost`.
    ///
    /// # Panics
    /// If `openssl` is missing or fails.
    #[must_use]
    pub fn make(directory: &Path) -> Self {
        fs::create_dir_all(directory).expect("a directory for certificates");
        let made = Self { directory: directory.to_owned() };
        made.sign_itself("authority");
        made.sign_itself("stranger");
        made.sign("server", &["subjectAltName=IP:127.0.0.1,DNS:localhost", "extendedKeyUsage=serverAuth"]);
        made.sign("client", &["extendedKeyUsage=clientAuth"]);
        made
    }

    /// Returns the certificate of the authority, which everybody is to trust.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.certificate("authority")
    }

    /// Returns the certificate of an authority that signed nothing: who trusts only this one trusts no server here.
    #[must_use]
    pub fn stranger(&self) -> PathBuf {
        self.certificate("stranger")
    }

    /// Returns the certificate of the server.
    #[must_use]
    pub fn server(&self) -> PathBuf {
        self.certificate("server")
    }

    /// Returns the private half of the server's certificate.
    #[must_use]
    pub fn server_private(&self) -> PathBuf {
        self.private("server")
    }

    /// Returns a certificate with which a candidate may come.
    #[must_use]
    pub fn candidate(&self) -> PathBuf {
        self.certificate("client")
    }

    /// Returns the private half of the candidate's certificate.
    #[must_use]
    pub fn candidate_private(&self) -> PathBuf {
        self.private("client")
    }

    fn certificate(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.crt"))
    }

    fn private(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.key"))
    }

    fn sign_itself(&self, name: &str) {
        self.request(name, &["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign"], &[]);
    }

    fn sign(&self, name: &str, extensions: &[&str]) {
        let extensions = [&["basicConstraints=critical,CA:FALSE"], extensions].concat();
        let (authority, private) = (self.authority(), self.private("authority"));
        self.request(name, &extensions, &[("-CA", &authority), ("-CAkey", &private)]);
    }

    fn request(&self, name: &str, extensions: &[&str], signer: &[(&str, &Path)]) {
        let mut command = Command::new(Program::find("openssl", "TENURE_OPENSSL").path());
        command.args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2".split(' '));
        command.args(["-subj", &format!("/CN=tenure test {name}")]);
        command.arg("-keyout").arg(self.private(name)).arg("-out").arg(self.certificate(name));
        for extension in extensions {
            command.args(["-addext", extension]);
        }
        for (option, file) in signer {
            command.arg(option).arg(file);
        }
        let output = command.output().and_then(|output| {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            output.status.success().then_some(()).ok_or_else(|| io::Error::other(text))
        });
        if let Err(error) = output {
            panic!("openssl cannot make the certificate of the {name}: {error}");
        }
    }
}
