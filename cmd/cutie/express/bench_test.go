package express_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"cutie/cmd/cutie/express"
)

// BenchmarkRequest is a submission of 1 KiB and its answer on one connection,
// with nothing done for it: by the front, and by the server alone.
func BenchmarkRequest(b *testing.B) {
	for _, name := range []string{"front", "server"} {
		b.Run(name, func(b *testing.B) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			addr := ln.Addr().String()
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				w.Header()["Content-Type"] = []string{"text/x-anvl"}
				w.WriteHeader(http.StatusCreated)
				io.WriteString(w, "job: done\n")
			})}
			if name == "front" {
				ln = express.Listen(ln, server, func(string, http.Header, int64) bool { return true })
			}
			go server.Serve(ln)
			defer server.Close()
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			request := []byte(post("/content/jobs", strings.Repeat("x", 1024), "User-Agent: bench", "Content-Type: application/octet-stream"))
			in := bufio.NewReader(c)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Write(request); err != nil {
					b.Fatal(err)
				}
				for {
					line, err := in.ReadSlice('\n')
					if err != nil {
						b.Fatal(err)
					}
					if string(line) == "job: done\n" {
						break
					}
				}
			}
		})
	}
}
