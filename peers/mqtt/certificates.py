"""Certificates of the tests, in the working directory."""

import os
import subprocess

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def authority(name):
    openssl("req", "-x509", *CURVE, "-subj", "/CN=authority", "-days", "2", "-keyout", f"{name}.key", "-out", f"{name}.pem")


def certificates():
    """An authority, a broker's certificate for another name than ours, and a client's."""
    authority("ca")
    for name, names in (("broker", "DNS:localhost,DNS:broker.example"), ("client", "DNS:press7")):
        open(f"{name}.ext", "w").write(f"subjectAltName={names}\n")
        openssl("req", *CURVE, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                "-extfile", f"{name}.ext", "-out", f"{name}.pem")
        os.chmod(f"{name}.key", 0o600)
