"""Uncompresses gzip files: python3 worker.py [BASE QUEUE]"""
import base64, gzip, hashlib, http.client, sys, time, urllib.parse, urllib.request

base, queue = sys.argv[1:] or ("http://127.0.0.1:8080/", "jobs")

def ask(method, path, body=None, **header):
    request = urllib.request.Request(base + path, body, {k.replace("_", "-"): v for k, v in header.items()}, method=method)
    with urllib.request.urlopen(request, timeout=90) as answer:
        return answer.read(), answer.headers

while True:
    try:
        payload, head = ask("POST", f"consume/{queue}?wait=20&lease=30", Accept="application/octet-stream")
        if "Cutie-Lease" not in head:
            continue  # no job came
        job, lease = head["Content-Location"].rsplit("/", 1)[1], head["Cutie-Lease"]
        sum = base64.b64encode(hashlib.sha256(payload).digest()).decode()
        if head["Repr-Digest"] != f"sha-256=:{sum}:":
            ask("POST", f"outcome/{queue}/{job}?outcome=error&type=transient&message=damaged", Cutie_Lease=lease)
            continue
        try:
            text, outcome = gzip.decompress(payload), "outcome=completed"
        except Exception as why:
            text, outcome = None, "outcome=error&type=fatal&message=" + urllib.parse.quote(str(why))
        if text is not None:
            ask("PUT", f"result/{queue}/{job}/text", text, Cutie_Lease=lease)
        ask("POST", f"outcome/{queue}/{job}?{outcome}", Cutie_Lease=lease)
    except (OSError, http.client.HTTPException) as why:  # the daemon is away, or the lease is gone: the job comes again
        print(why, file=sys.stderr)
        time.sleep(1)
