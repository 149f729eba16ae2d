"""The gateway as an application of our engine: decide on each head, then refuse or forward.

Spec: streamable-http, "Server Validation" for intermediaries (H-11, H-13), "Cancellation" (T-15).
"""

from __future__ import annotations

import time
from typing import Final

from mcpost.errors import InternalError, InvalidRequest, WireError
from mcpost.gateway import refusals
from mcpost.gateway.access_log import AccessLog, Note
from mcpost.gateway.aggregated import Aggregated
from mcpost.gateway.cached import Asked, Cached, may_ask
from mcpost.gateway.decide import Facts, Verdict
from mcpost.gateway.door import Door
from mcpost.gateway.forward import Forward, Upload
from mcpost.gateway.generation import Decided, Generation, Plan
from mcpost.gateway.hops import hides_a_fact
from mcpost.gateway.live import Live
from mcpost.gateway.metrics import Metrics
from mcpost.gateway.policy import Listener
from mcpost.gateway.quota import Exceeded, Quotas
from mcpost.gateway.refusals import Refusal
from mcpost.gateway.spans import Spans
from mcpost.http11.application import Application
from mcpost.http11.encode import HeaderLines
from mcpost.http11.head import Request
from mcpost.wire import jsonrpc
from mcpost.wire.agreement import check_agreement
from mcpost.wire.meta import parse_meta
from mcpost.wire.mirror import NAMED

__all__ = ("Door", "Gateway", "Shared")

_NOT_FOUND: Final = refusals.refused(404, "there is nothing at this path")
_SHORT: Final = 64 * 1024
"""Bytes of a body up to which it is sent on once it is whole, and not piece by piece. That of a
request that is refused is read, too, for its id."""

_METHOD: Final = refusals.refused(
    405, "send POST, or GET and DELETE of an earlier revision", (b"allow", b"POST")
)


class Shared:
    """What the listeners of one gateway have in common.

    Args:
        generation: The policy at work.
        log: The access log, if there is one.
    """

    def __init__(self, generation: Generation, log: AccessLog | None = None) -> None:
        self.generation = generation
        self.log = log
        self.spans = Spans.of_program()
        """Writes a span for each request, where the program uses OpenTelemetry."""
        self.live: Live | None = None
        """What the live page is told, where there is an admin listener."""
        self.metrics = Metrics()
        self.quotas = Quotas()
        self.running: set[Forward] = set()
        """What is under way."""
        self.cached = Cached(self.close_note, self.running, self.ended)
        self.cached.configure(generation.policy.cache)
        self.aggregated = Aggregated(self.cached, self.close_note, self.running, self.ended)

    def replace(self, following: Generation) -> None:
        """Go on with another policy; what runs is not touched."""
        before, self.generation = self.generation, following
        self.cached.configure(following.policy.cache)
        before.retire(following)

    def close_note(self, note: Note, status: int, forward: Forward | None = None) -> None:
        """Count and log a request that has ended."""
        facts, verdict = note.facts, note.verdict
        self.quotas.release(note.ticket)
        if note.cache is not None:
            self.metrics.cache[note.cache] += 1
        self.metrics.count(
            facts.method,
            facts.name,
            verdict=verdict.action,
            upstream=verdict.upstream,
            status=status,
            seconds=note.seconds(),
        )
        if self.spans is not None:
            broken = forward is not None and forward.error is not None
            self.spans.add(note, status, broken=broken)
        if self.live is not None and self.live.is_watched:
            self.live.add(note, status, time.time())
        if self.log is None:
            return
        if forward is None:
            self.log.add(note, status, upstream=verdict.upstream)
            return
        self.log.add(
            note,
            status,
            upstream=verdict.upstream,
            endpoint=forward.endpoint.name if forward.endpoint else None,
            end=forward.end.value if forward.end else None,
            bytes=forward.received,
            error=str(forward.error) if forward.error else None,
        )

    def ended(self, forward: Forward) -> None:
        """Take note that a forwarded request has ended."""
        self.running.discard(forward)
        self.close_note(forward.note, forward.status, forward)

    def streams(self) -> int:
        """Streams that are open now."""
        return sum(forward.is_open for forward in self.running) + self.aggregated.streams()


class Gateway(Application[Door]):
    """One listener.

    Args:
        shared: What all listeners share.
        listener: What the policy says of this one.
    """

    def __init__(self, shared: Shared, listener: Listener) -> None:
        self._shared = shared
        self._listener = listener
        bare = listener.path.rstrip("/")
        self._paths = {bare.encode(), bare.encode() + b"/"}

    def open(self, request: Request, exchange: Door) -> None:
        """Decide on a head; forward it, refuse it, or let the whole body come first."""
        noted: Decided | None = request.note
        if (
            noted is not None
            and noted.is_whole
            and noted.is_of(self._shared.generation, self._listener)
        ):
            exchange.generation, exchange.plan = noted.generation, noted.plan
            return
        if request.target not in self._paths and request.path.encode() not in self._paths:
            self._turn_away(request, exchange, _NOT_FOUND)
            return
        generation = self._shared.generation
        if request.method == "POST":
            plan = generation.plan(request, self._listener)
        else:
            found = self._plan_other(request, generation)
            if found is None:
                self._turn_away(request, exchange, _METHOD)
                return
            plan = found
        hidden = hides_a_fact(request)
        if hidden is not None:
            error = InvalidRequest(f"Connection may not name {hidden.decode('ascii')}")
            plan = _refuse(plan.facts, error)
        if request.method == "POST" and _needs_body(request, generation, plan.verdict):
            exchange.generation, exchange.plan = generation, plan
            noted = request.note
            if noted is not None and noted.plan is plan:
                noted.is_whole = True
            return
        note = self._admit(request, exchange, plan)
        if note is not None:
            forward = self._forward(request, exchange, generation, plan, note)
            exchange.receive(Upload(exchange, request.length, forward))

    def handle(self, request: Request, body: bytes, exchange: Door) -> None:
        """Decide with the body, which has been read; then forward or refuse."""
        generation, plan = exchange.generation, exchange.plan
        verdict = plan.verdict
        message = None
        if verdict.action == "inspect":
            plan = self._inspect(request, body, generation, plan)
        elif verdict.action == "allow" and (
            generation.policy.verify == "body"
            or verdict.upstream in generation.policy.aggregates
            or may_ask(generation, verdict.upstream, plan.facts.method, len(body))
        ):
            plan, message = _compare(request, body, plan)
        note = self._admit(request, exchange, plan, body)
        if note is None:
            return
        upstream = plan.verdict.upstream
        aggregate = generation.policy.aggregates.get(upstream or "")
        if aggregate is not None:
            asked = Asked(exchange, request, generation, plan.lines, note, body, plan.heads)
            self._shared.aggregated.serve(aggregate, asked, message)
            return
        if message is not None and may_ask(generation, upstream, message.method, len(body)):
            asked = Asked(exchange, request, generation, plan.lines, note, body, plan.heads)
            if self._shared.cached.serve(asked, message):
                return
        self._forward(request, exchange, generation, plan, note).send(body)

    def word(self, status: int, reason: str) -> tuple[HeaderLines, bytes]:
        """Say a refusal of the engine as one of the gateway."""
        answer = refusals.refused(status, reason)
        return answer.headers, answer.body

    # Verdicts.

    def _plan_other(self, request: Request, generation: Generation) -> Plan | None:
        """Decide on a request that is no message; `None` where there is no such method.

        GET and DELETE are of sessions of earlier revisions; rules know them by these names.
        """
        if request.method == "OPTIONS":
            return generation.forward_plainly(request)
        if request.method not in {"GET", "DELETE"}:
            return None
        plan = generation.plan(request, self._listener)
        if plan.verdict.action != "inspect":
            return None
        facts = plan.facts.with_body(request.method, None)
        return generation.decide(request, facts, self._listener)

    def _inspect(self, request: Request, body: bytes, generation: Generation, plan: Plan) -> Plan:
        """Decide on a message of an earlier revision, by its body."""
        try:
            message = jsonrpc.decode_answer(body)
            if isinstance(message, jsonrpc.Response):
                facts = plan.facts.with_body("response", None)
            else:
                # Strict in what may hide a second method or name.
                message = jsonrpc.decode_message(body)
                name = message.params.get(NAMED.get(message.method, ""))
                named = name if isinstance(name, str) else None
                facts = plan.facts.with_body(message.method, named)
        except WireError as error:
            return _refuse(plan.facts, error)
        return generation.decide(request, facts, self._listener)

    # Steps.

    def _admit(
        self, request: Request, exchange: Door, plan: Plan, body: bytes = b""
    ) -> Note | None:
        """Let a request through, or answer why not."""
        shared, verdict = self._shared, plan.verdict
        note = Note(request.method, plan.facts, verdict, time.perf_counter())
        if shared.spans is not None:
            note.fields = request.fields
        if verdict.action != "allow":
            self._refuse(exchange, note, _answer(verdict, _read_id(body)))
            return None
        if verdict.upstream is None:
            self._refuse(exchange, note, refusals.refused(503, "no upstream is set for this call"))
            return None
        if verdict.charges:
            ticket = shared.quotas.charge(verdict.charges, exchange.loop.time())
            if isinstance(ticket, Exceeded):
                note.verdict = verdict._replace(action="deny", rule=ticket.rule)
                wait = b"%d" % ticket.retry_after
                answer = refusals.refused(429, "too many calls", (b"retry-after", wait))
                self._refuse(exchange, note, answer)
                return None
            note.ticket = ticket
        return note

    def _forward(
        self, request: Request, exchange: Door, generation: Generation, plan: Plan, note: Note
    ) -> Forward:
        """Begin to forward a request that was let through."""
        shared, verdict = self._shared, plan.verdict
        assert verdict.upstream is not None
        forward = Forward(
            exchange,
            request,
            generation.groups[verdict.upstream],
            lines=plan.lines,
            note=note,
            ended=shared.ended,
            shard=generation.shard(verdict) if verdict.endpoint is not None else None,
            heads=plan.heads,
        )
        shared.running.add(forward)
        return forward

    def _turn_away(self, request: Request, exchange: Door, answer: Refusal) -> None:
        """Refuse what no rule was asked about."""
        verdict = Verdict("deny", status=answer.status)
        facts = Facts(peer=request.peer)
        self._refuse(exchange, Note(request.method, facts, verdict, time.perf_counter()), answer)

    def _refuse(self, exchange: Door, note: Note, answer: Refusal) -> None:
        exchange.respond(*answer)
        self._shared.close_note(note, answer.status)


def _needs_body(request: Request, generation: Generation, verdict: Verdict) -> bool:
    """Whether the whole body has to come before an answer, or before it is sent on."""
    if 0 < request.length <= _SHORT or verdict.action == "inspect":
        return True
    # A long one is refused unread.
    policy = generation.policy
    return verdict.action == "allow" and (
        policy.verify == "body" or verdict.upstream in policy.aggregates
    )


def _read_id(body: bytes) -> jsonrpc.Id | None:
    if not body:
        return None
    try:
        message = jsonrpc.decode_message(body)
    except WireError as error:
        return error.request_id
    return message.id if isinstance(message, jsonrpc.Request) else None


def _answer(verdict: Verdict, request_id: jsonrpc.Id | None) -> Refusal:
    error = verdict.error
    if error is None:
        kind = InternalError if verdict.status >= 500 else InvalidRequest
        error = kind(verdict.reason)
    return refusals.refused_by(verdict.status, error, request_id=request_id)


def _refuse(facts: Facts, error: WireError) -> Plan:
    return Plan(facts, Verdict("refuse", status=400, reason=error.message, error=error))


def _compare(request: Request, body: bytes, plan: Plan) -> tuple[Plan, jsonrpc.Request | None]:
    """Compare the headers with the body; gives what was read, if it is a request that agrees."""
    try:
        message = jsonrpc.decode_message(body)
        if isinstance(message, jsonrpc.Notification):
            if plan.facts.method == message.method:
                return plan, None
            raise InvalidRequest("Header mismatch: Mcp-Method is not the method of the body")
        problem = check_agreement(request.headers, message, parse_meta(message), lambda _: None)
    except WireError as error:
        return _refuse(plan.facts, error), None
    return (plan, message) if problem is None else (_refuse(plan.facts, problem), None)
