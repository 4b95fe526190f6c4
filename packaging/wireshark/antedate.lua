-- Dissects the formats of Antedate that Wireshark does not know: the marks of fragments in the SecTAG,
-- the private TLVs of MKPDUs, the messages between gateways inside MACsec, and MQTT envelopes.
-- Nothing is decrypted. Wireshark 4.0 or later:
--   tshark -X lua_script:antedate.lua -r plant.pcap -O antedate
-- or copy it to the folder of personal plugins (Help, About Wireshark, Folders).

local antedate = Proto("antedate", "Antedate")
local f = {
    fragment = ProtoField.string("antedate.fragment", "Fragment"),
    more = ProtoField.bool("antedate.fragment.more", "More fragments"),
    continued = ProtoField.bool("antedate.fragment.continued", "Continued"),
    reassembles = ProtoField.bool("antedate.mka.reassembles", "Reassembles fragments"),
    suite = ProtoField.string("antedate.mka.suite", "Cipher suite"),
    latest = ProtoField.uint64("antedate.mka.express.latest", "Lowest packet number of the express channel, latest key"),
    old = ProtoField.uint64("antedate.mka.express.old", "Lowest packet number of the express channel, old key"),
    kind = ProtoField.string("antedate.kind", "Kind"),
    id = ProtoField.uint32("antedate.id", "Identifier"),
    sequence = ProtoField.uint32("antedate.sequence", "Sequence number"),
    from = ProtoField.string("antedate.from", "From"),
    to = ProtoField.string("antedate.to", "To"),
    heard = ProtoField.uint16("antedate.heard", "Octets of the request"),
    wanted = ProtoField.uint16("antedate.wanted", "Octets of the answer"),
    interval = ProtoField.uint16("antedate.interval", "Interval in ms"),
    hops = ProtoField.uint8("antedate.hops", "Hops"),
    algorithm = ProtoField.string("antedate.mqtt.algorithm", "Algorithm"),
    epoch = ProtoField.uint32("antedate.mqtt.epoch", "Epoch"),
    publisher = ProtoField.string("antedate.mqtt.publisher", "Publisher"),
    number = ProtoField.uint64("antedate.mqtt.number", "Number"),
    time = ProtoField.absolute_time("antedate.mqtt.time", "Sealed at"),
    ciphertext = ProtoField.uint32("antedate.mqtt.ciphertext", "Octets of ciphertext and tag"),
}
antedate.fields = f

local macsec_length, mka_set, mqtt_payload = Field.new("macsec.SL"), Field.new("mka.announcement_set"), Field.new("mqtt.msg")

-- IEEE 802.1AE-2018 table 14-1, and the private ones.
local suites = {
    ["0080c20001000001"] = "GCM-AES-128", ["0080c20001000002"] = "GCM-AES-256",
    ["0080c20001000003"] = "GCM-AES-XPN-128", ["0080c20001000004"] = "GCM-AES-XPN-256",
    ["02616e7465000001"] = "ChaCha20-Poly1305", ["02616e7465000002"] = "AEGIS-128L",
    ["02616e7465000003"] = "MORUS-1280-128", ["02616e7465000004"] = "Ascon-AEAD128",
    ["02616e7465000005"] = "AES-128-OCB3",
}
-- RFC 9053 section 4.
local algorithms = {
    [1] = "A128GCM", [3] = "A256GCM", [10] = "AES-CCM-16-64-128", [11] = "AES-CCM-16-64-256",
    [24] = "ChaCha20/Poly1305", [30] = "AES-CCM-16-128-128", [31] = "AES-CCM-16-128-256",
}

local function hex(range)
    return range:bytes():tohex(true)
end

local function sci(range)
    return tostring(range(0, 6):ether()) .. "/" .. range(6, 2):uint()
end

-- A value of the pair at these places, or nothing outside of the packet.
local function part(range, at, length)
    if at + length <= range:len() then return range(at, length) end
end

-- The two bits of the short length that IEEE 802.1AE reserves.
local function fragment(range, tree)
    local bits = range:uint()
    local more, continued = bits >= 0x80, bits % 0x80 >= 0x40
    if not (more or continued) then return end
    local place = continued and (more and "one in the middle" or "the last") or "the first"
    local branch = tree:add(antedate, range, "Antedate: a fragment, " .. place)
    branch:add(f.fragment, range, place):set_generated()
    branch:add(f.more, range, more)
    branch:add(f.continued, range, continued)
end

-- The TLVs of an Announcement parameter set (IEEE 802.1X-2020 clause 11.12).
local function announcement(set, tree)
    local at = 4
    while at + 2 <= set:len() do
        local head = set(at, 2):uint()
        local kind, length = math.floor(head / 512), head % 512
        local body = part(set, at + 2, length)
        if not body then return end
        if kind == 127 and length >= 5 and hex(body(0, 3)) == "a24ed7" then
            local branch = tree:add(antedate, body, "Antedate: features of a gateway")
            local subtype = body(3, 1):uint()
            if subtype == 1 then
                branch:add(f.reassembles, body(4, 1), body(4, 1):uint() % 2 == 1)
                for suite = 5, length - 8, 8 do
                    local name = hex(body(suite, 8))
                    branch:add(f.suite, body(suite, 8), suites[name] or name)
                end
            elseif subtype == 2 and length == 20 then
                branch:add(f.latest, body(4, 8))
                branch:add(f.old, body(12, 8))
            end
        end
        at = at + 2 + length
    end
end

-- An unsigned head of CBOR (RFC 8949 section 3): major type, argument, the place behind.
local function head(range, at)
    local first = part(range, at, 1)
    if not first then return end
    local major, low = math.floor(first:uint() / 32), first:uint() % 32
    if low < 24 then return major, low, at + 1 end
    local width = ({ [24] = 1, [25] = 2, [26] = 4 })[low]
    local argument = width and part(range, at + 1, width)
    if argument then return major, argument:uint(), at + 1 + width end
end

-- A byte string, and the place behind.
local function octets(range, at)
    local major, length, behind = head(range, at)
    if major ~= 2 then return end
    if length == 0 then return nil, behind end
    local found = part(range, behind, length)
    if found then return found, behind + length end
end

-- COSE_Encrypt0 (RFC 9052 section 5.2) with the epoch and the publisher as kid, the number as Partial IV.
local function envelope(range, tree)
    local at = 0
    if range:len() > 1 and range(0, 1):uint() == 0xd0 then at = 1 end
    local major, count
    major, count, at = head(range, at)
    if major ~= 4 or count ~= 3 then return end
    local protected, unprotected = octets(range, at)
    if not protected then return end
    major, count, at = head(range, unprotected)
    if major ~= 5 or count ~= 2 then return end
    local found = {}
    for _ = 1, 2 do
        local key
        major, key, at = head(range, at)
        if major ~= 0 then return end
        found[key], at = octets(range, at)
        if not found[key] then return end
    end
    local kid, number, ciphertext = found[4], found[6], octets(range, at)
    if not (kid and number and ciphertext) then return end

    local epoch, scale, name = 0, 1, 0
    repeat
        local group = part(kid, name, 1)
        if not group or name == 5 then return end
        epoch, scale, name = epoch + group:uint() % 128 * scale, scale * 128, name + 1
    until group:uint() < 128
    local publisher = part(kid, name, kid:len() - name)
    if not publisher or number:len() > 8 then return end

    local branch = tree:add(antedate, range, "Antedate: an MQTT envelope of " .. publisher:string())
    -- {1: algorithm}, or {1: algorithm, 15: {6: time}} (RFC 9597).
    local pairs, key, value, place
    major, pairs, place = head(protected, 0)
    for _ = 1, (major == 5 and pairs or 0) do
        major, key, place = head(protected, place)
        if major ~= 0 then break end
        major, value, place = head(protected, place)
        if key == 1 and major == 0 then
            branch:add(f.algorithm, protected, algorithms[value] or tostring(value))
        elseif key == 15 and major == 5 and value == 1 then
            major, key, place = head(protected, place)
            major, value, place = head(protected, place)
            if key == 6 and major == 0 then branch:add(f.time, protected, NSTime(value)) end
        else
            break
        end
    end
    branch:add(f.epoch, kid(0, name), epoch)
    branch:add(f.publisher, publisher, publisher:string())
    local whole = UInt64(0)
    for octet = 0, number:len() - 1 do whole = whole * 256 + number(octet, 1):uint() end
    branch:add(f.number, number, whole)
    branch:add(f.ciphertext, ciphertext, ciphertext:len())
end

local function each(fields, act, tree)
    for _, field in ipairs({ fields() }) do act(field.range, tree) end
end

function antedate.dissector(_, _, tree)
    each(macsec_length, fragment, tree)
    each(mka_set, announcement, tree)
    each(mqtt_payload, envelope, tree)
end
register_postdissector(antedate)

-- Between gateways, inside MACsec: IEEE 802's OUI Extended EtherType with A2-4E-D7 and a number.
local between = Proto("antedate_gateways", "Antedate between gateways")
local ethertypes = DissectorTable.get("ethertype")
local before = ethertypes:get_dissector(0x88b7)

local messages = {
    [2] = function(branch) branch:add(f.kind, "a frame of a link-local protocol") end,
    [3] = function(branch) branch:add(f.kind, "standby at a field segment") end,
    [4] = function(branch, frame)
        branch:add(f.kind, "a probe for loops")
        branch:add(f.hops, frame(5, 1))
    end,
}
messages[1] = function(branch, frame)
    local kind = frame(5, 1):uint()
    branch:add(f.kind, frame(5, 1), ({ "echo request", "echo answer", "hello" })[kind] or tostring(kind))
    branch:add(f.id, frame(6, 4))
    branch:add(f.sequence, frame(10, 4))
    branch:add(f.from, frame(14, 8), sci(frame(14, 8)))
    if kind == 3 then
        branch:add(f.interval, frame(22, 2))
    else
        branch:add(f.to, frame(22, 8), sci(frame(22, 8)))
        branch:add(f.heard, frame(30, 2))
        branch:add(f.wanted, frame(32, 2))
    end
end

function between.dissector(frame, info, tree)
    local message = frame:len() >= 40 and hex(frame(0, 3)) == "a24ed7" and messages[frame(3, 2):uint()]
    if not message then
        if before then return before:call(frame, info, tree) end
        return
    end
    info.cols.protocol = "Antedate"
    message(tree:add(between, frame()), frame)
end
ethertypes:add(0x88b7, between)
