package descriptions

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/publisher/rdm"
	"cutie/publisher/soif"
	"cutie/queuefs"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/web"
)

// importedAtOnce is the number of descriptions in a batch.
const importedAtOnce = 100

// importAll submits each description in the answer of a Gatherer as a job.
func (r *rdmCall) importAll(ctx context.Context) error {
	if r.queue == "" {
		return fault.Hint(fault.Usagef("no queue is named"), "--queue QUEUE names it")
	}
	in, err := r.openGathered(ctx, r.Args[1])
	if err != nil {
		return err
	}
	defer in.Close()
	return r.At(ctx, func(t *reach.Target) error { return r.importFrom(ctx, t, in) })
}

func (r *rdmCall) importFrom(ctx context.Context, t *reach.Target, in io.Reader) error {
	n := map[soif.Action]int{}
	var batch []client.Upload
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		ids, err := t.Submit(ctx, r.queue, batch...)
		if err != nil {
			return fault.About(r.queue, err)
		}
		batch = batch[:0]
		n[soif.Update] += len(ids)
		return nil
	}
	text := soif.NewReader(in)
	g := soif.NewGatherReader(text)
	for {
		e, bad := g.Read()
		if bad == nil {
			bad = partHint(rdm.CheckPart(&e.Object))
		}
		if bad != nil || len(batch) == importedAtOnce {
			if err := flush(); err != nil {
				return err
			}
		}
		if bad == io.EOF {
			break
		}
		if bad != nil {
			r.Warnf("%d submitted before the mistake", n[soif.Update])
			return fault.About(r.Args[1], fixHint(bad))
		}
		if e.Action != soif.Update {
			n[e.Action]++
			continue
		}
		batch = append(batch, r.described(&e.Object))
	}
	if len(n) == 0 && text.Skipped().Lines > 0 {
		return fault.About(r.Args[1], errNoObject)
	}
	r.Sayf("%d submitted", n[soif.Update])
	if n[soif.Delete]+n[soif.Refresh] > 0 {
		r.Warnf("passed over: %d to be deleted, %d unchanged", n[soif.Delete], n[soif.Refresh])
	}
	return r.Out.Emit(fmt.Appendf(nil, "%d\n", n[soif.Update]))
}

// described is a job whose payload is a description.
func (r *rdmCall) described(o *soif.Object) client.Upload {
	text := o.Append(nil)
	return client.Upload{Size: int64(len(text)), Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(text))), nil },
		Meta: queuefs.Meta{Filename: o.Value("Title"), MediaType: "application/x-soif", Submitter: reach.Agent()}}
}

// openGathered opens a file, standard input or a URL, and decompresses it.
func (r *rdmCall) openGathered(ctx context.Context, name string) (io.ReadCloser, error) {
	var in io.ReadCloser
	switch {
	case name == "-":
		in = io.NopCloser(r.Stdin)
	case strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://"):
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, name, nil)
		if err != nil {
			return nil, fault.Usagef("%v", err)
		}
		req.Header.Set("User-Agent", reach.Agent())
		resp, err := r.Remote(name).HTTP.Do(req)
		if err != nil {
			return nil, err
		}
		if in = resp.Body; resp.StatusCode != http.StatusOK {
			in.Close()
			return nil, fault.About(name, &web.Error{Status: resp.StatusCode})
		}
	default:
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		in = f
	}
	if !strings.HasSuffix(name, ".gz") {
		return in, nil
	}
	z, err := gzip.NewReader(in)
	if err != nil {
		in.Close()
		return nil, fault.About(name, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{z, in}, nil
}
