"""MQTT envelopes, implemented from the book's description with cbor2, pycose and cryptography."""

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, AESOCB3, ChaCha20Poly1305
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap
from pycose.headers import IV, KID, Algorithm, PartialIV
from pycose.algorithms import EdDSA
from pycose.keys import OKPKey, SymmetricKey
from pycose.keys.curves import Ed25519
from pycose.messages import Enc0Message, Sign1Message

# name: COSE number, bytes of the key, bytes of the nonce, cipher
ALGORITHMS = {
    "aes-ccm-16-64-128": (10, 16, 13, lambda key: AESCCM(key, tag_length=8)),
    "aes-128-gcm": (1, 16, 12, AESGCM),
    "aes-256-gcm": (3, 32, 12, AESGCM),
    "chacha20-poly1305": (24, 32, 12, ChaCha20Poly1305),
    "aes-128-ocb3": (-65537, 16, 12, AESOCB3),
}


# COSE numbers that pycose 1.1 supports.
PYCOSE = (1, 3, 10)


def derive(secret, group, epoch, number, publisher, kind, length):
    info = cbor2.dumps([publisher, [group, epoch], number, kind, length])
    return HKDF(algorithm=hashes.SHA256(), length=length, salt=None, info=info).derive(secret)


def leb128(number):
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def split_kid(kid):
    epoch = shift = at = 0
    while True:
        byte = kid[at]
        epoch |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if byte & 0x80 == 0:
            return epoch, kid[at:]


class Group:
    def __init__(self, name, algorithm, secrets):
        self.name, self.algorithm, self.secrets = name, algorithm, secrets

    def parts(self, epoch, publisher, sequence, topic):
        number, key_len, nonce_len, cipher = ALGORITHMS[self.algorithm]
        secret = self.secrets[epoch]
        key = derive(secret, self.name, epoch, number, publisher, "Key", key_len)
        base = derive(secret, self.name, epoch, number, publisher, "IV", nonce_len)
        nonce = (int.from_bytes(base, "big") ^ sequence).to_bytes(nonce_len, "big")
        external = cbor2.dumps([topic, publisher, epoch, sequence.to_bytes(8, "big")])
        return number, key, nonce, cipher, external

    def open(self, topic, message):
        """Returns payload, publisher, epoch and sequence number; raises if the message is not authentic."""
        protected, unprotected, ciphertext = cbor2.loads(message)
        epoch, publisher = split_kid(unprotected[4])
        sequence = int.from_bytes(unprotected[6], "big")
        number, key, nonce, cipher, external = self.parts(epoch, publisher, sequence, topic)
        header = cbor2.loads(protected)
        # A time of sealing may follow, in CWT Claims (RFC 9597).
        assert {**header, 15: None} == {1: number, 15: None}, "another algorithm"
        structure = cbor2.dumps(["Encrypt0", protected, external])
        payload = cipher(key).decrypt(nonce, ciphertext, structure)
        if number in PYCOSE:
            # pycose must agree.
            array = [protected, {**unprotected}, ciphertext]
            cose = Enc0Message.from_cose_obj(array, False)
            cose.uhdr_update({IV: nonce})
            cose.key, cose.external_aad = SymmetricKey(key), external
            assert cose.decrypt() == payload, "pycose reads another payload"
        return payload, publisher, epoch, sequence

    def seal(self, topic, payload, publisher, epoch, sequence):
        number, key, nonce, cipher, external = self.parts(epoch, publisher, sequence, topic)
        kid = leb128(epoch) + publisher
        partial = sequence.to_bytes((sequence.bit_length() + 7) // 8, "big")
        if number in PYCOSE:
            cose = Enc0Message(phdr={Algorithm: number}, uhdr={KID: kid, PartialIV: partial}, payload=payload)
            cose.key, cose.external_aad = SymmetricKey(key), external
            # pycose reads the IV from the header; the wire carries the Partial IV alone.
            cose.uhdr_update({IV: nonce})
            ciphertext = cose.encrypt()
            protected = cose.phdr_encoded
        else:
            protected = cbor2.dumps({1: number})
            ciphertext = cipher(key).encrypt(nonce, payload, cbor2.dumps(["Encrypt0", protected, external]))
        return cbor2.dumps([protected, {4: kid, 6: partial}, ciphertext])


def signing_key(device):
    """The Ed25519 secret and public key of a device's secret."""
    seed = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=b"antedate-mqtt signing").derive(device)
    return seed, Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def place(group, topic, publisher, epoch, sequence):
    return cbor2.dumps(["antedate-mqtt payload", group, topic, publisher, epoch, sequence])


def signed(payload, seed, public, *where):
    """A payload with its publisher's signature, made by pycose."""
    message = Sign1Message(phdr={Algorithm: EdDSA}, payload=payload, external_aad=place(*where))
    message.key = OKPKey(crv=Ed25519, x=public, d=seed)
    return message.encode(tag=False)


def verified(plaintext, public, *where):
    """The payload of a signed one, verified by pycose."""
    protected, unprotected, payload, signature = cbor2.loads(plaintext)
    message = Sign1Message.from_cose_obj([protected, dict(unprotected), payload, signature], False)
    message.key, message.external_aad = OKPKey(crv=Ed25519, x=public), place(*where)
    assert message.get_attr(Algorithm) == EdDSA and message.verify_signature(), "not the publisher's signature"
    return payload


def open_rotation(message, group, manager, member, secret):
    """Opens a rotation message for a member: epoch, algorithm, secret, grace in seconds."""
    outer = cbor2.loads(message)
    assert outer.tag == 18, "no COSE_Sign1"
    protected, unprotected, payload, signature = outer.value
    signed = Sign1Message.from_cose_obj([protected, dict(unprotected), payload, signature], False)
    signed.key = OKPKey(crv=Ed25519, x=manager)
    signed.external_aad = cbor2.dumps(["antedate-mqtt rotation", group])
    assert signed.get_attr(Algorithm) == EdDSA and signed.verify_signature(), "not the manager's signature"
    tag = cbor2.loads(signed.payload)
    assert tag.tag == 96, "no COSE_Encrypt"
    protected, unprotected, ciphertext, recipients = tag.value
    assert cbor2.loads(protected) == {1: 3}
    for header, parameters, wrapped in recipients:
        if parameters[4] != member:
            continue
        assert cbor2.loads(header) == {1: -31}, "no ECDH-ES + A256KW"
        ephemeral = parameters[-1]
        assert (ephemeral[1], ephemeral[-1]) == (1, 4), "no X25519 key"
        shared = X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(ephemeral[-2]))
        # COSE_KDF_Context (RFC 9053 section 5.2) without party names.
        context = cbor2.dumps([-5, [None] * 3, [None] * 3, [256, header]])
        wrapping = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=context).derive(shared)
        key = aes_key_unwrap(wrapping, wrapped)
        plain = AESGCM(key).decrypt(unprotected[5], ciphertext, cbor2.dumps(["Encrypt", protected, b""]))
        name, epoch, number, fresh, grace = cbor2.loads(plain)
        assert name == group
        return epoch, number, fresh, grace
    raise LookupError("not a recipient")
