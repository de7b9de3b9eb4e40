package descriptions

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"cutie/publisher/rdm"
	"cutie/publisher/soif"
	"cutie/queuefs/web"
)

// send submits the objects in files.
func (r *rdmCall) send(ctx context.Context, client *rdm.Client) error {
	typ := rdm.RDResponse
	if r.remove {
		typ = rdm.RDResponseDeleted
	}
	files := r.Args[2:]
	if len(files) == 0 {
		files = []string{"-"}
	}
	var rejected error // the answer is printed all the same
	err := printObjects(r.Call, r.form, nil, func(p *objectPrinter) error {
		// Files are read while they are sent; a mistake in one stops there.
		in, out := io.Pipe()
		go func() {
			w := soif.NewWriter(out)
			out.CloseWithError(eachFile(r.Call, files, func(_ string, in io.Reader) error {
				return eachObject(in, func(o *soif.Object) error { return w.Write(*o) })
			}))
		}()
		defer in.Close()
		reply, err := client.Send(ctx, typ, client.CatalogID(r.catalog), in)
		if err != nil {
			// A mistake in a file is no error of the request.
			if bad := (*soif.ParseError)(nil); errors.As(err, &bad) {
				if e := (*url.Error)(nil); errors.As(err, &e) {
					err = e.Err
				}
			}
			return restError(err)
		}
		defer reply.Close()
		if reply.Status >= 400 || reply.Error != "" {
			rejected = &web.Error{Status: max(reply.Status, http.StatusBadRequest), Message: reply.Error}
		} else if !strings.HasSuffix(reply.Interpret, ", 0 rejected") {
			rejected = errors.New(reply.Interpret)
		}
		_, err = r.printReply(p, reply)
		return err
	})
	if err != nil {
		return err
	}
	return rejected
}
