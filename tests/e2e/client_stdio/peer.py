"""A server on stdio in few lines, with the faults that a test asks for in its arguments.

It uses the standard library alone, so that it starts in some hundredths of a second.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

FAULTS = set(sys.argv[1:])


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def reply(request, **body):
    say({"jsonrpc": "2.0", "id": request["id"], **body})


def note(method, **params):
    say({"jsonrpc": "2.0", "method": method, "params": params})


def complete(request, **result):
    reply(request, result={"resultType": "complete", **result})


def text(request, words):
    complete(request, content=[{"type": "text", "text": words}])


def call(request, name, arguments):
    if name == "environment":
        text(request, json.dumps(dict(os.environ)))
    elif name == "pid":
        text(request, str(os.getpid()))
    elif name == "die":
        sys.stderr.write("I give up\n")
        sys.stderr.flush()
        os._exit(3)
    elif name == "die_once":
        mark = pathlib.Path(arguments["mark"])
        if not mark.exists():
            mark.touch()
            os._exit(3)
        text(request, "alive")
    elif name == "large":
        text(request, "x" * arguments["size"])
    elif name == "garbage":
        sys.stdout.write("this is no message\n")
        text(request, "after garbage")
    elif name == "broken":
        sys.stdout.write(f'{{"jsonrpc":"2.0","id":{request["id"]},"result":{{"content":[}}\n')
        sys.stdout.flush()
    elif name == "torn":
        sys.stdout.write(f'{{"jsonrpc":"2.0","id":{request["id"]},"resu')
        sys.stdout.flush()
        os._exit(0)
    elif name == "progress":
        token = request["params"]["_meta"]["progressToken"]
        for done in range(1, 4):
            note("notifications/progress", progressToken=token, progress=done, total=3)
        text(request, "done")
    elif name == "silent":
        pass
    elif name == "cancelled":
        text(request, json.dumps(CANCELLED))
    elif name == "ask":
        say(
            {
                "jsonrpc": "2.0",
                "id": "q1",
                "method": "elicitation/create",
                "params": {"message": "Name?", "requestedSchema": {"type": "object"}},
            }
        )
        answer = json.loads(sys.stdin.readline())
        text(request, json.dumps(answer["result"]))
    elif name == "grandchild":
        child = subprocess.Popen(
            [sys.executable, "-c", "import signal,time;signal.signal(15,1);time.sleep(60)"],
            stdin=subprocess.DEVNULL,
        )
        text(request, str(child.pid))


CANCELLED = []


def serve(message):
    method = message.get("method")
    if method == "notifications/cancelled":
        CANCELLED.append(message["params"]["requestId"])
    if "id" not in message or method is None:
        return
    if method == "server/discover":
        if "mute" in FAULTS:
            return
        if "legacy" in FAULTS:
            reply(message, error={"code": -32602, "message": "what is that?"})
        elif "newer" in FAULTS:
            data = {"supported": ["2027-01-01"], "requested": "2026-07-28"}
            reply(message, error={"code": -32022, "message": "newer", "data": data})
        else:
            complete(message, supportedVersions=["2026-07-28"], capabilities={"tools": {}})
    elif method == "initialize":
        info = {"name": "peer", "version": "1"}
        version = "2025-06-18"
        capabilities = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
        reply(
            message,
            result={"protocolVersion": version, "capabilities": capabilities, "serverInfo": info},
        )
    elif method == "tools/list":
        complete(message, tools=[])
    elif method == "subscriptions/listen":
        meta = {"io.modelcontextprotocol/subscriptionId": str(message["id"])}
        note(
            "notifications/subscriptions/acknowledged",
            notifications=message["params"]["notifications"],
            _meta=meta,
        )
        note("notifications/tools/list_changed", _meta=meta)
    elif method in ("resources/subscribe", "resources/unsubscribe"):
        reply(message, result={})
        note("notifications/resources/updated", uri=message["params"]["uri"])
    elif method == "tools/call":
        call(message, message["params"]["name"], message["params"].get("arguments", {}))


def main():
    if "stubborn" in FAULTS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "dead" in FAULTS:
        sys.exit("no licence")
    for line in sys.stdin:
        serve(json.loads(line))
    if "stubborn" in FAULTS:
        time.sleep(60)


main()
