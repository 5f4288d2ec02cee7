"""The rights of principals while a node runs: verdicts, kept until the ACLs change.

`Authorizer` belongs to a node and holds the index of its ACLs; `Rights` belong to one principal at one address, and all
of its connections share them. Handlers of the hot path look only at the sets of what is allowed. Denials are reported
to `on_decision`, each time. Goes to authorizer.py. Refuses nothing: handlers build the responses.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final
from weakref import WeakValueDictionary

from penstock.model.acl import OPERATIONS_OF, Acl, Operation, ResourceType
from penstock.model.topic import AUDIT
from penstock.security.authorizer import AUDIT_TOPIC, NOT_LOADED, SUPER_USER, AclIndex, Decision, canonical_host
from penstock.security.principal import Principal

CACHED_MAX: Final = 4096
"""How many verdicts are kept in each cache: a client can send any name."""
KEY_SIZE_MAX: Final = 512
"""Verdicts on longer names are not kept: they would take a hundred megabytes, and no topic has such a name."""

_READING: Final = (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)

OnDecision = Callable[["Rights", int, int, str, Decision, int], None]
"""Takes rights, operation, resource type and name, the decision and the API key, which is -1 if it is not known."""


class Rights:
    """What one principal may do from one address."""

    __slots__ = (
        "__weakref__",
        "_authorizer",
        "_decisions",
        "_is_super_user",
        "commits",
        "host",
        "principal",
        "readable_ids",
        "readable_names",
        "writable_ids",
        "writable_names",
    )

    def __init__(self, authorizer: "Authorizer", principal: Principal, host: str) -> None:
        self._authorizer = authorizer
        self.principal = principal
        self.host = host
        self._is_super_user = principal in authorizer.super_users
        self._decisions: dict[tuple[int, int, str | None], Decision] = {}
        self.writable_names: set[bytes] = set()
        self.writable_ids: set[bytes] = set()
        self.readable_names: set[bytes] = set()
        self.readable_ids: set[bytes] = set()
        self.commits: set[tuple[int, bytes]] = set()

    def allows(
        self, operation: int, resource_type: int, name: str, *, api_key: int = -1, is_asked: bool = True
    ) -> bool:
        """Return whether the principal may do this; a denial is reported unless nobody asked for the resource."""
        decision = self.decide(operation, resource_type, name)
        authorizer = self._authorizer
        if is_asked and (not decision.is_allowed or authorizer.reports_allowed):
            authorizer.on_decision(self, operation, resource_type, name, decision, api_key)
        return decision.is_allowed or authorizer.is_audit

    def allows_any(self, operation: int, resource_type: int, *, api_key: int = -1) -> bool:
        """Return whether the principal may do this on at least one resource of the type."""
        key = operation, resource_type, None
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._keep(key, self._authorizer.decide_any(self, operation, resource_type))
        if not decision.is_allowed:
            self._authorizer.on_decision(self, operation, resource_type, "*", decision, api_key)
        return decision.is_allowed or self._authorizer.is_audit

    def may_read(self, key: bytes, name: str, *, by_id: bool, api_key: int = -1) -> bool:
        """Return whether the topic may be read; remember that it may by its name or id in requests."""
        return self._may(Operation.READ, self.readable_ids if by_id else self.readable_names, bytes(key), name, api_key)

    def may_write(self, key: bytes, name: str, *, by_id: bool, api_key: int = -1) -> bool:
        """Return whether the topic may be written; remember that it may by its name or id in requests."""
        return self._may(
            Operation.WRITE, self.writable_ids if by_id else self.writable_names, bytes(key), name, api_key
        )

    def _may(self, operation: int, known: set[bytes], key: bytes, name: str, api_key: int) -> bool:
        is_allowed = self.allows(operation, ResourceType.TOPIC, name, api_key=api_key)
        is_quiet = not self._authorizer.reports_allowed and self.decide(operation, ResourceType.TOPIC, name).is_allowed
        if is_quiet and len(key) <= KEY_SIZE_MAX:
            if len(known) >= CACHED_MAX:
                known.clear()
            known.add(key)
        return is_allowed

    def remember_commit(self, key: tuple[int, bytes]) -> None:
        if self._authorizer.keeps_allowed and len(key[1]) <= KEY_SIZE_MAX:
            if len(self.commits) >= CACHED_MAX:
                self.commits.clear()
            self.commits.add(key)

    def operations(self, resource_type: int, name: str) -> int:
        """Return the allowed operations on a resource as bits, for the fields with authorized operations."""
        return sum(
            1 << operation
            for operation in OPERATIONS_OF[resource_type]
            if self.allows(operation, resource_type, name, is_asked=False)
        )

    def decide(self, operation: int, resource_type: int, name: str) -> Decision:
        """Return the verdict on an operation and its rule, in any mode."""
        key = operation, resource_type, name
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._keep(key, self._authorizer.decide(self, operation, resource_type, name))
        return decision

    def _keep(self, key: tuple[int, int, str | None], decision: Decision) -> Decision:
        _, _, name = key
        if name is None or len(name) <= KEY_SIZE_MAX:
            if len(self._decisions) >= CACHED_MAX:
                self._decisions.clear()
            self._decisions[key] = decision
        return decision

    @property
    def is_super_user(self) -> bool:
        return self._is_super_user

    def forget(self) -> None:
        """Drop every verdict: the ACLs have changed."""
        for cache in (self.writable_names, self.writable_ids, self.readable_names, self.readable_ids):
            cache.clear()
        self.commits.clear()
        self._decisions.clear()


class Authorizer:
    """The ACLs of a node, and the rights that follow from them."""

    def __init__(
        self,
        *,
        super_users: Collection[Principal] = (),
        if_no_acl: bool = False,
        is_audit: bool = False,
        reports_allowed: bool = False,
        on_decision: OnDecision | None = None,
    ) -> None:
        """Create an authorizer without ACLs; until `load` is called it allows super users only."""
        self.super_users = frozenset(super_users)
        self.is_audit = is_audit
        self.reports_allowed = reports_allowed
        self.on_decision: OnDecision = on_decision or _ignore
        self.on_change: list[Callable[[], None]] = []
        """Called after the ACLs have changed, and every cached verdict is dropped."""
        self._if_no_acl = if_no_acl
        self._index: AclIndex | None = None
        self._rights: WeakValueDictionary[tuple[Principal, str], Rights] = WeakValueDictionary()

    @property
    def keeps_allowed(self) -> bool:
        return not self.reports_allowed and not self.is_audit

    def rights(self, principal: Principal, host: str) -> Rights:
        """Return the rights that all connections of a principal from an address share."""
        key = principal, canonical_host(host)
        found = self._rights.get(key)
        if found is None:
            found = self._rights[key] = Rights(self, *key)
        return found

    def load(self, acls: Iterable[Acl]) -> None:
        """Replace all ACLs."""
        self._index = AclIndex(acls)
        self._changed()

    def change(self, *, removed: Iterable[Acl], added: Iterable[Acl]) -> None:
        """Apply the changes of one commit together."""
        assert self._index is not None, "the ACLs are loaded first"
        for acl in removed:
            self._index.remove(acl)
        for acl in added:
            self._index.add(acl)
        self._changed()

    @property
    def is_loaded(self) -> bool:
        return self._index is not None

    def decide(self, rights: Rights, operation: int, resource_type: int, name: str) -> Decision:
        if rights.is_super_user:
            return Decision(True, SUPER_USER)
        if self._index is None:
            return Decision(False, NOT_LOADED)
        if name == AUDIT and resource_type == ResourceType.TOPIC and operation not in _READING:
            return Decision(False, AUDIT_TOPIC)
        who = str(rights.principal)
        return self._index.decide(who, rights.host, operation, resource_type, name, if_no_acl=self._if_no_acl)

    def decide_any(self, rights: Rights, operation: int, resource_type: int) -> Decision:
        if rights.is_super_user:
            return Decision(True, SUPER_USER)
        if self._index is None:
            return Decision(False, NOT_LOADED)
        who = str(rights.principal)
        return self._index.decide_any(who, rights.host, operation, resource_type, if_no_acl=self._if_no_acl)

    def _changed(self) -> None:
        for rights in list(self._rights.values()):
            rights.forget()
        for callback in list(self.on_change):
            callback()


def _ignore(rights: Rights, operation: int, resource_type: int, name: str, decision: Decision, api_key: int) -> None:
    return
