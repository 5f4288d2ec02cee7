"""Broker options for TLS, SASL and the identity of nodes. Declarations only.

Every option can be set for one listener with the prefix `listener.name.<listener>.`, and options of SASL for one
mechanism with `listener.name.<listener>.<mechanism>.`; listeners.py resolves that.
"""

from functools import partial
from typing import Final

from penstock.config.option import MINUTE_MS, SECOND_MS, Option, Value, declare, invalid

_int = partial(declare, "int")
_long = partial(declare, "long")
_flag = partial(declare, "boolean")
_text = partial(declare, "string")
_list = partial(declare, "list")
_secret = partial(declare, "password")

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
UNKNOWN_USERS_SECRET: Final = "sasl.scram.unknown.users.secret"
MECHANISMS: Final = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)
_NODE_MECHANISMS: Final = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512)
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_STORES: Final = ("JKS", "PKCS12", "PEM")


def check_mechanisms(name: str, value: Value) -> None:
    """Reject unknown mechanisms; Kerberos with a message that says what to use instead."""
    for word in value if isinstance(value, tuple) else (value,):
        if word == GSSAPI:
            raise invalid(name, word, f"Penstock does not support Kerberos. Use one of: {', '.join(MECHANISMS)}")
        if word not in MECHANISMS:
            raise invalid(name, word, f"String must be one of: {', '.join(MECHANISMS)}")


def check_node_mechanism(name: str, value: Value) -> None:
    if value not in _NODE_MECHANISMS:
        raise invalid(name, value, f"Nodes of a cluster can use one of: {', '.join(_NODE_MECHANISMS)}")


def check_users(name: str, value: Value) -> None:
    """Reject anything except a list of `User:name`, separated by semicolons."""
    for entry in str(value or "").split(";"):
        kind, colon, user = entry.strip().partition(":")
        if entry.strip() and not (kind and colon and user):
            raise invalid(name, value, "Each entry must have the form User:name")


SECURITY_OPTIONS: Final[tuple[Option, ...]] = (
    # TLS
    _text("ssl.client.auth", "none", choices=("none", "requested", "required"),
          doc="Whether clients must present a certificate: `none`, `requested` or `required`. On a SASL_SSL listener "
              "only a value with the listener's prefix applies."),
    _list("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), choices=("TLSv1.2", "TLSv1.3"), allow_empty=False,
          scope="per-broker", doc="The versions of TLS that a listener accepts."),
    _text("ssl.keystore.type", "JKS", choices=_STORES, scope="per-broker",
          doc="The format of the key store: `PEM` or `PKCS12`. With `JKS`, Kafka's default, the format is detected by "
              "the file's content; a file that really has Java's own format is rejected."),
    _text("ssl.keystore.location", None, scope="per-broker",
          doc="The file with the private key and the certificate chain. It is loaded again when it changes."),
    _secret("ssl.keystore.password", None, "The password of a PKCS12 key store.", scope="per-broker"),
    _secret("ssl.keystore.key", None, "The private key as PEM text, instead of a file.", scope="per-broker"),
    _secret("ssl.keystore.certificate.chain", None, scope="per-broker",
            doc="The certificate chain as PEM text, together with ssl.keystore.key."),
    _secret("ssl.key.password", None, "The password of the private key.", scope="per-broker"),
    _text("ssl.truststore.type", "JKS", choices=_STORES, scope="per-broker",
          doc="The format of the trust store, as for ssl.keystore.type."),
    _text("ssl.truststore.location", None, scope="per-broker",
          doc="The file with the certificates of the authorities that are trusted, for clients' certificates and for "
              "connections to other nodes. It is loaded again when it changes."),
    _secret("ssl.truststore.password", None, "The password of a PKCS12 trust store.", scope="per-broker"),
    _secret("ssl.truststore.certificates", None, scope="per-broker",
            doc="The trusted certificates as PEM text, instead of a file."),
    _text("ssl.endpoint.identification.algorithm", "https", choices=("https", ""),
          doc="Whether a node checks that the certificate of another node has its host name: `https`, or empty for "
              "no check."),
    _text("ssl.principal.mapping.rules", "DEFAULT",
          doc="The rules that map the distinguished name of a client's certificate to a user name, as "
              "`RULE:pattern/replacement/[LU]` or `DEFAULT`. The first that matches the whole name applies."),
    _flag("ssl.allow.dn.changes", False,
          doc="Accept a changed key store whose certificate has another distinguished name."),
    _flag("ssl.allow.san.changes", False,
          doc="Accept a changed key store whose certificate lacks some of the host names of the present one."),
    # SASL
    _list("sasl.enabled.mechanisms", (SCRAM_SHA_256, SCRAM_SHA_512), check=check_mechanisms,
          allow_empty=False,
          doc="The SASL mechanisms that clients may use. The default in Kafka is GSSAPI, which Penstock does not "
              "support."),
    _secret("sasl.jaas.config", None,
            doc="The users of PLAIN (`user_<name>=\"<password>\"`), and the user and password with which this node "
                "logs in at other nodes, in the format of Java's JAAS files. Set it for one listener and mechanism: "
                "`listener.name.<listener>.<mechanism>.sasl.jaas.config`."),
    _text("sasl.mechanism.inter.broker.protocol", PLAIN, check=check_node_mechanism,
          doc="The mechanism between brokers. The default in Kafka is GSSAPI."),
    _text("sasl.mechanism.controller.protocol", PLAIN, check=check_node_mechanism,
          doc="The mechanism of connections to controllers. The default in Kafka is GSSAPI. SCRAM is not possible on "
              "a new cluster: its users are stored in the metadata log."),
    _int("sasl.server.max.receive.size", 512 * 1024, least=1,
         doc="The maximum size of a request before the client is authenticated."),
    _int("connection.failed.authentication.delay.ms", 100, least=0,
         doc="How long a failed authentication delays its response and the close of its connection."),
    _long("connections.max.reauth.ms", 0, least=0,
          doc="The maximum lifetime of an authenticated session; clients must authenticate again before it ends. 0 "
              "means no limit."),
    _text("sasl.oauthbearer.jwks.endpoint.url", None,
          doc="Where the keys that verify tokens are: an `https://`, `http://` or `file://` URL of a JWKS document. "
              "OAUTHBEARER requires it, because Penstock accepts signed tokens only."),
    _long("sasl.oauthbearer.jwks.endpoint.refresh.ms", 60 * MINUTE_MS, least=SECOND_MS,
          doc="How often the keys are loaded again. A token with an unknown key loads them too, at most every ten "
              "seconds."),
    _text("sasl.oauthbearer.expected.issuer", None, "The issuer that tokens must name, if set."),
    _list("sasl.oauthbearer.expected.audience", (), "The audiences of which tokens must name one, if set."),
    _text("sasl.oauthbearer.sub.claim.name", "sub", "The claim that contains the user name."),
    _int("sasl.oauthbearer.clock.skew.seconds", 30, least=0,
         doc="The difference between the clocks of the issuer and this node that is tolerated."),
    _secret("bootstrap.scram.credentials", None, own=True,
            doc="The SCRAM credentials of the first users, which are written when a cluster is created: "
                "`SCRAM-SHA-512=[name=...,iterations=...,salt=...,stored_key=...,server_key=...]`, with base64 "
                "values. `penstock start --secure` sets it."),
    _secret(UNKNOWN_USERS_SECRET, None, own=True, scope="cluster-wide",
            doc="The secret from which the salts of unknown users are derived, so that a login does not reveal which "
                "users exist. The controller creates it together with the first user; there is no need to set it."),
    # Delegation tokens
    _secret("delegation.token.secret.key", None,
            doc="The key of the passwords of delegation tokens. It must be the same on all nodes; without it, tokens "
                "are disabled. A new key makes all tokens invalid."),
    _long("delegation.token.max.lifetime.ms", 7 * 24 * 60 * MINUTE_MS, least=1,
          doc="How long a delegation token may be used at most. It cannot be renewed beyond that."),
    _long("delegation.token.expiry.time.ms", 24 * 60 * MINUTE_MS, least=1,
          doc="How long a delegation token is valid without being renewed."),
    _long("delegation.token.expiry.check.interval.ms", 60 * MINUTE_MS, least=1,
          doc="How often the controller removes delegation tokens that have expired."),
    # Authorization
    _text("authorizer.class.name", "", choices=("", STANDARD_AUTHORIZER),
          doc="What decides which requests a client may send: Kafka's class name of the standard authorizer, which "
              "uses ACLs, or empty to allow everything."),
    _text("authorizer.mode", "enforce", own=True, choices=("enforce", "audit"),
          doc="`enforce`: requests that no ACL allows are denied. `audit`: all requests are carried out, and those "
              "that would be denied are recorded."),
    _flag("authorizer.audit.allowed", False, own=True,
          doc="Also record the requests that are allowed, except those of super users. This slows down every request."),
    _flag("authorizer.audit.topic", True, own=True,
          doc="Whether the events of the audit are written to the topic `__penstock_audit`, and not only to the log."),
    _flag("allow.everyone.if.no.acl.found", False,
          doc="Whether every user may use a resource for which there is no ACL."),
    _text("super.users", "", check=check_users,
          doc="The principals, as `User:a;User:b`, that may do everything, and may act as nodes of this cluster on "
              "listeners that authenticate clients. This node's own principal always may."),
    # Nodes
    _list("node.listener.names", (), own=True,
          doc="Listeners on which other nodes may connect, in addition to inter.broker.listener.name and "
              "controller.listener.names. Needed only while a cluster moves from one listener to another."),
)  # fmt: skip
