"""The Lua that Envoy runs before it looks at routes: what `decide` refuses, it refuses.

Envoy joins lines of one name, so a route cannot tell a doubled header from one with a comma; Lua
counts them. Envoy lets a request pass when a script fails, so the script marks what it has checked
and the routes ask for the mark.

Spec: streamable-http, "Server Validation" (T-22, H-07, H-09, H-13).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

from mcpost.gateway.export import answers
from mcpost.gateway.export.common import numbers_of, path_of, reads_names
from mcpost.gateway.policy import Listener, Policy
from mcpost.limits import WireLimits
from mcpost.wire.mirror import NAMED
from mcpost.wire.versions import MODERN

__all__ = ("MARK", "PLAIN", "write_guard")

MARK: Final = "x-mcpost-checked"
"""The header that the script sets on what it has checked."""

PLAIN: Final = "plain"
"""Its value on what no rule is about; else it is 1."""

# In a Lua class `%` escapes; `^` may not stand first.
_TOKEN: Final = r"^[%w!#%$%%&'*+%-.%^_`|~]+$"
_TEMPLATE: Final = r"""
local PATH = "@PATH@"
local MODERN = @MODERN@
local NAMED = @NAMED@
local PARAMS = @PARAMS@
local NUMBERS = @NUMBERS@
local NAMES_ARE_READ = @READS@
local OPTIONS_PASS = @OPTIONS@
local LIMIT = @LIMIT@

local function answer(handle, status, code, message, data)
  local lines = {
    [":status"] = status, ["content-type"] = "application/json", ["mcpost-gateway"] = "refused"
  }
  if status == "405" then lines["allow"] = "POST" end
  handle:respond(lines, '{"jsonrpc":"2.0","error":{"code":' .. code .. ',"message":"' .. message
    .. '","data":{' .. (data or "") .. '"gateway":"refused","sent":"no"}}}')
end

local function is_token(value)
  return #value <= LIMIT and value:gsub("/", "-"):find(@TOKEN@) ~= nil
end

local function is_sentinel(value)
  return value:sub(1, 9) == "=?base64?" and value:sub(-2) == "?="
end

-- Canonical Base64; whether it is UTF-8 is left to the server.
local function is_base64(payload)
  if #payload % 4 ~= 0 or not payload:find("^[%w+/]*=?=?$") then return false end
  if payload:sub(-2) == "==" then return payload:sub(-3, -3):find("[AQgw]") ~= nil end
  return payload:sub(-1) ~= "=" or payload:sub(-2, -2):find("[AEIMQUYcgkosw048]") ~= nil
end

local function problem_of(headers, name, is_read)
  local value = headers:get(name)
  if value == nil then return nil end
  if headers:getNumValues(name) > 1 then return name .. " stands twice" end
  if #value > LIMIT then return name .. " is too long" end
  if value:find("[^\9\32-\126]") then return name .. " is malformed" end
  if is_sentinel(value) then
    if is_read then return name .. " is encoded, and rules here compare it as it is" end
    if #value < 11 or not is_base64(value:sub(10, -3)) then return name .. " is malformed" end
  end
  if NUMBERS[name] and value:find("^-?%d") and value ~= "0" and not value:find("^-?[1-9]%d*$") then
    return name .. " is a number that is not written plainly"
  end
  return nil
end

local function find_problem(headers, version, method)
  if headers:getNumValues("mcp-protocol-version") > 1 then return "version stands twice" end
  if headers:getNumValues("mcp-method") > 1 then return "mcp-method stands twice" end
  if version and not is_token(version) then return "mcp-protocol-version is malformed" end
  if method and not is_token(method) then return "mcp-method is malformed" end
  local problem = problem_of(headers, "mcp-name", NAMES_ARE_READ)
  if problem then return problem end
  if version == nil then return "MCP-Protocol-Version is missing" end
  return nil
end

local function find_missing(headers, method)
  if method == nil then return "Mcp-Method is missing" end
  if NAMED[method] and headers:get("mcp-name") == nil then return "Mcp-Name is missing" end
  if method ~= "tools/call" then return nil end
  for _, name in ipairs(PARAMS) do
    local problem = problem_of(headers, name, true)
    if problem then return problem end
  end
  return nil
end

-- Whether it is the endpoint's path, which may end with a slash; routes know it without.
local function is_endpoint(headers)
  local target = headers:get(":path") or ""
  local path, query = target:match("^([^?]*)(.*)$")
  if path == PATH then return true end
  if path ~= PATH .. "/" or PATH == "/" then return false end
  headers:replace(":path", PATH .. query)
  return true
end

-- With `x-envoy-*` a client could have its call repeated, or its answer cut short.
local function drop_orders(headers)
  local found = {}
  for name in pairs(headers) do
    if name:sub(1, 8) == "x-envoy-" then found[#found + 1] = name end
  end
  for _, name in ipairs(found) do headers:remove(name) end
end

function envoy_on_request(handle)
  local headers = handle:headers()
  headers:remove("@MARK@")
  drop_orders(headers)
  if not is_endpoint(headers) then return end
  local verb = headers:get(":method")
  if verb == "OPTIONS" and OPTIONS_PASS then
    headers:add("@MARK@", "@PLAIN@")
    handle:clearRouteCache()
    return
  end
  if verb ~= "POST" then
    answer(handle, "405", @INVALID@, "@NO_METHOD@")
    return
  end
  local version, method = headers:get("mcp-protocol-version"), headers:get("mcp-method")
  local problem = find_problem(headers, version, method)
  if problem == nil and not MODERN[version] then
    answer(handle, "400", @UNSUPPORTED@, "protocol version '" .. version .. "' is not served here",
      '"supported":@SUPPORTED@,"requested":"' .. version .. '",')
    return
  end
  problem = problem or find_missing(headers, method)
  if problem then
    answer(handle, "400", @MISMATCH@, "Header mismatch: " .. problem)
    return
  end
  headers:add("@MARK@", "1")
  handle:clearRouteCache()
end
"""


def write_guard(policy: Policy, listener: Listener) -> str:
    """Write the script for one listener of a policy."""
    params = sorted(header.decode() for header in policy.reads)
    values = {
        "MODERN": _set(MODERN),
        "NAMED": _set(sorted(NAMED)),
        "PARAMS": "{" + ", ".join(map(json.dumps, params)) + "}",
        "NUMBERS": _set(sorted(header.decode() for header in numbers_of(policy))),
        "READS": "true" if reads_names(policy) else "false",
        "LIMIT": str(WireLimits().max_header_value),
        "TOKEN": json.dumps(_TOKEN),
        "PATH": path_of(listener),
        "OPTIONS": "true" if policy.upstream is not None else "false",
        "MARK": MARK,
        "PLAIN": PLAIN,
        "NO_METHOD": answers.NO_METHOD,
        "INVALID": str(answers.INVALID),
        "UNSUPPORTED": str(answers.UNSUPPORTED),
        "MISMATCH": str(answers.MISMATCH),
        "SUPPORTED": json.dumps(MODERN, separators=(",", ":")),
    }
    # In one pass: what is put in is never taken for a place.
    return re.sub("@([A-Z_]+)@", lambda place: values[place[1]], _TEMPLATE)


def _set(words: Iterable[str]) -> str:
    return "{" + ", ".join(f"[{json.dumps(word)}] = true" for word in words) + "}"
