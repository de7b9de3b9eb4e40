//go:build !race

package main_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cutie/testdata/long"
)

// memoryLimit is the most private memory of the daemon in these tests. It needs about
// 200 MiB itself: garbage is collected in earnest only above that.
const memoryLimit = 640 << 20

// An attack is many requests that never end, each with a large part of itself sent.
type attack struct {
	head string                  // of each request
	body func(w io.Writer) error // does not end the request
}

// A daemon under a limit of memory outlives requests that are to be kept in memory,
// and answers others meanwhile.
func TestMemoryForRequestsHasALimit(t *testing.T) {
	const mib = 1 << 20
	octets := strings.Repeat("x", 64<<10)
	send := func(w io.Writer, n int) error {
		for ; n > 0; n -= len(octets) {
			if _, err := io.WriteString(w, octets[:min(n, len(octets))]); err != nil {
				return err
			}
		}
		return nil
	}
	rdm := "POST /rdm/incoming HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-rdm\r\nContent-Length: 20000000\r\n\r\n"
	form := "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 20000000\r\n\r\n"
	for name, a := range map[string]attack{
		"header of a message": {head: rdm, body: func(w io.Writer) error {
			io.WriteString(w, "@RDMHEADER { -\nRDM-Version{15000000}:\t")
			return send(w, 14*mib)
		}},
		"object of a submission": {head: rdm, body: func(w io.Writer) error {
			io.WriteString(w, "@RDMHEADER { -\nRDM-Version{3}:\t1.0\nRDM-Type{11}:\trd-response\nCatalog-Service-ID{25}:\tx-catalog://h:80/attacked\n}\n"+
				"@DOCUMENT { http://example.org/\nPayload{15000000}:\t")
			return send(w, 14*mib)
		}},
		"header of a part": {head: fmt.Sprintf(form, "/content/attacked"), body: func(w io.Writer) error {
			io.WriteString(w, "--b\r\nContent-Disposition: form-data; name=file\r\nX: ")
			return send(w, 9*mib)
		}},
		"header of a part for UWS": {head: fmt.Sprintf(form, "/uws/attacked/async"), body: func(w io.Writer) error {
			io.WriteString(w, "--b\r\nContent-Disposition: form-data; name=a\r\nX: ")
			return send(w, 9*mib)
		}},
		"many small files": {head: fmt.Sprintf(form, "/content/attacked"), body: func(w io.Writer) error {
			for range 60 {
				io.WriteString(w, "--b\r\nContent-Disposition: form-data; name=file; filename=a\r\n\r\n")
				if err := send(w, 64<<10); err != nil {
					return err
				}
				io.WriteString(w, "\r\n")
			}
			return nil
		}},
	} {
		if !long.On() && slices.Contains([]string{"object of a submission", "header of a part for UWS"}, name) {
			continue // a short test has others with the same form of body
		}
		t.Run(name, func(t *testing.T) {
			home := filepath.Join(t.TempDir(), "home")
			d := serveHome(t, home, "--anonymous", "read,submit")
			if _, err := cutie(t, "--home", home, "create", "attacked"); err != nil {
				t.Fatal(err)
			}
			limit := unix.Rlimit{Cur: memoryLimit, Max: memoryLimit}
			if err := unix.Prlimit(d.cmd.Process.Pid, unix.RLIMIT_DATA, &limit, nil); err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancel(t.Context())
			var all, sent sync.WaitGroup
			for i := range 130 {
				sent.Add(1)
				all.Go(func() { besiege(ctx, t, d, i%13, a.head, a.body, sent.Done) })
			}
			sent.Wait()
			if err := answered(d.url + "state/attacked"); err != nil {
				t.Errorf("meanwhile: %v; %s", err, d.stderr.String())
			}
			end()
			all.Wait()
			if err := answered(d.url + "state/attacked"); err != nil {
				t.Errorf("afterwards: %v; %s", err, d.stderr.String())
			}
		})
	}
}

// besiege sends a request from a loopback address, and keeps it open until ctx ends.
func besiege(ctx context.Context, t *testing.T, d *daemon, address int, head string, body func(io.Writer) error, sent func()) {
	from := &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+address))}
	c, err := (&net.Dialer{LocalAddr: from}).Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(d.url, "http://"), "/"))
	if err != nil {
		t.Error(err)
		sent()
		return
	}
	defer c.Close()
	c.SetWriteDeadline(time.Now().Add(startLimit))
	w := bufio.NewWriter(c)
	w.WriteString(head)
	_ = body(w) // the daemon may refuse the rest
	_ = w.Flush()
	sent()
	<-ctx.Done()
}

// answered sends a request of a user who does no harm.
func answered(url string) error {
	resp, err := http.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
