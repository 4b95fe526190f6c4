//! Reasons for refusing what a peer has shown.

use core::fmt;

use antedate_wire::dtls::handshake::AlertDescription;

use super::super::Cause;

macro_rules! reasons {
    ($( $(#[$meta:meta])* $name:ident, $cause:ident, $alert:ident, $text:literal; )*) => {
        /// The reason for refusing what a peer has shown. The text is for the log, and names the
        /// remedy.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Distrust { $( $(#[$meta])* $name, )* }

        impl Distrust {
            /// All reasons.
            pub const ALL: &'static [Self] = &[$( Self::$name, )*];

            /// Fault and remedy.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $( Self::$name => $text, )* }
            }

            /// The counter.
            #[must_use]
            pub const fn cause(self) -> Cause {
                match self { $( Self::$name => Cause::$cause, )* }
            }

            /// What the peer is told.
            pub(in crate::dtls) const fn alert(self) -> AlertDescription {
                match self { $( Self::$name => AlertDescription::$alert, )* }
            }
        }
    };
}

reasons! {
    /// the peer has shown nothing
    Nothing, Certificate, HandshakeFailure,
        "the peer has shown no certificate; give it one, or allow clients without";
    /// a certificate cannot be read
    Malformed, Certificate, BadCertificate,
        "the peer's certificate cannot be read; see: openssl x509 -text";
    /// the key is not one of P-256
    Key, Certificate, UnsupportedCertificate,
        "the peer's key is not on the curve P-256; make it one with: openssl ecparam -name prime256v1 -genkey";
    /// neither the key nor the certificate is in the list of peers
    Unlisted, Trust, AccessDenied,
        "neither key nor certificate of the peer is in the file of --peers, and no authority of --ca is asked";
    /// no trusted authority has issued the certificate
    Issuer, Trust, UnknownCa,
        "no authority of --ca has issued the peer's certificate, or the peer does not send what is between";
    /// a signature in the chain is wrong, or of an algorithm that is not read
    Chain, Trust, BadCertificate,
        "a signature of the peer's certificates is wrong, or of an old algorithm; use ECDSA or RSA with SHA-256";
    /// the certificate is of another name
    Name, Trust, CertificateUnknown,
        "the server's certificate has another name; see --name, and subjectAltName in: openssl x509 -text";
    /// the certificate is for another purpose
    Usage, Trust, UnsupportedCertificate,
        "the peer's certificate is not for this use; see keyUsage and extendedKeyUsage in: openssl x509 -text";
    /// the certificate is an authority's, as a self-signed one of OpenSSL is
    Authority, Trust, UnsupportedCertificate,
        "the peer shows an authority's certificate, as `openssl req -x509` makes it; list its digest in --peers, or issue one from it";
    /// a rule of an authority forbids the certificate
    Constraint, Trust, BadCertificate,
        "the peer's certificates break a rule of an authority, or are too many; see: openssl verify";
    /// a critical extension is not known
    Critical, Trust, UnsupportedCertificate,
        "the peer's certificate has a critical extension that is not known here; issue one without";
    /// the certificate is no longer valid
    Expired, Expired, CertificateExpired,
        "the peer's certificate has expired; renew it, and see this machine's clock";
    /// the certificate is not valid yet
    Early, Expired, CertificateExpired,
        "the peer's certificate is not valid yet; see the clocks of both machines";
    /// this machine's clock is wrong
    Clock, Clock, InternalError,
        "this machine's clock is before 2025, so no certificate can be judged; set it, by NTP or by hand";
    /// the certificate is revoked
    Revoked, Revoked, CertificateRevoked,
        "the peer's certificate is revoked";
    /// there is no list that tells whether the certificate is revoked
    Unchecked, Revocation, CertificateUnknown,
        "no list of --crl is of an issuer of the peer's certificates; add one for each authority";
    /// the list of revoked certificates is too old
    OldList, Revocation, CertificateUnknown,
        "the list of --crl is older than its nextUpdate; fetch a new one";
}

impl Distrust {
    /// The reason with a text.
    pub(in crate::dtls) fn of(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.text() == text)
    }
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for Distrust {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_text_of_its_own() {
        for reason in Distrust::ALL {
            assert_eq!(Distrust::of(reason.text()), Some(*reason));
        }
        assert_eq!(Distrust::of("another"), None);
    }
}
