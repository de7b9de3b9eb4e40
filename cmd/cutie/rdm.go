package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/publisher/rdm"
	"cutie/publisher/soif"
	"cutie/queuefs/web"
)

// rdmVerb exchanges descriptions with a server, and reads their files.
func rdmVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rdm COMMAND",
		Short: "exchange resource descriptions with a server, check and print them",
		Long: `
The server speaks RDM (W3C NOTE-rdm-960724). Each queue of the daemon is a catalog
with descriptions of its jobs. The files are in SOIF (RFC 2655).`,
		Example: `cutie rdm get http://127.0.0.1:8080/ --since 2026-01-31T10:00:00Z -t json
cutie rdm get http://127.0.0.1:8080/ --order=-Size --hits 10
cutie rdm send http://127.0.0.1:8080/ --catalog jobs new.soif
cutie rdm cat new.soif -t json`,
	}
	return c.Group(cmd, optTarget|optOutput, rdmGetVerb(c), rdmSendVerb(c), soifCheckVerb(c), soifCatVerb(c))
}

// soifVerb is the former name of the part of rdm that reads files.
func soifVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{Use: "soif COMMAND", Short: "check and print resource descriptions"}
	return c.Group(cmd, optOutput|optVerbose, soifCheckVerb(c), soifCatVerb(c))
}

func rdmGetVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get URL",
		Short: "print the descriptions in a catalog, or what a server says of itself",
		Long: `
Prints all descriptions, or those that have changed since a date. With --type it prints
something else: rd-request-deleted is what is no longer in the catalog, and server,
schema, taxonomy and status are what the server says of itself. To follow a catalog, ask
for what was deleted first, and apply the answers in this order.

URL is the server; without a path /rdm/incoming is added. The limits of a server are in
its description (--type server), as Max-Objects, Max-Object-Size, Max-Message-Size and
Max-Ordered. ` + fmt.Sprintf("A daemon sorts %d descriptions; for the first of more there is --hits.", rdm.DefaultOrdered),
	}
	r := newRDMCall(c, cmd)
	fs := cmd.Flags()
	fs.StringVar(&r.typ, "type", "rd-request", "`type` of the request: rd-request, rd-request-deleted, server, schema, taxonomy or status")
	fs.StringVar(&r.scope, "scope", "", "scope of the query, a `text` such as all or children ROOT")
	fs.StringVar(&r.since, "since", "", "only changes since a `date`, RFC 3339 or of HTTP")
	fs.StringVar(&r.attributes, "attributes", "", "`list` of the wanted attributes")
	fs.StringVar(&r.order, "order", "", "`list` of attributes to sort by, with a minus sign the greatest first")
	fs.StringVar(&r.hits, "hits", "", "`range` of the wanted results, such as 10 or 11..20")
	return c.Verb(cmd, optTarget|optOutput, func(ctx context.Context) error { return r.with(ctx, r.get) })
}

func rdmSendVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "send URL [FILE…|-]",
		Short: "submit the descriptions in files of SOIF to a catalog",
		Long: fmt.Sprintf(`
Each object becomes a job, replaces the description with its URL, or puts a job back;
with --delete it deletes the descriptions with their URLs. The result for each is
printed, and it is an error if one was rejected. URL is the server; without a path
/rdm/incoming is added.

A message has at most %[1]d objects or 16 MiB; after a message refused as a whole, no
more are sent. A daemon takes messages of %[1]d objects, of %[2]d MiB each, and 1 GiB in
all (or serve --max-body, if that is less).`, rdm.DefaultObjects, soif.DefaultLimit>>20),
	}
	r := newRDMCall(c, cmd)
	cmd.Flags().BoolVar(&r.remove, "delete", false, "delete the descriptions that are sent")
	return c.Verb(cmd, optTarget|optOutput, func(ctx context.Context) error { return r.with(ctx, r.send) })
}

// An rdmCall is one exchange with a server.
type rdmCall struct {
	*call
	form, catalog, typ, scope, since, attributes, order, hits string
	remove                                                    bool
}

func newRDMCall(c *call, cmd *cobra.Command) *rdmCall {
	r := &rdmCall{call: c}
	cmd.Flags().StringVarP(&r.form, "form", "t", soifForm, "print objects as `"+objectForms+"`")
	cmd.Flags().StringVar(&r.catalog, "catalog", "", "`name` or Catalog-Service-ID of the catalog (default that of the server)")
	return r
}

// with calls do with a client of the server in the first argument.
func (r *rdmCall) with(ctx context.Context, do func(context.Context, *rdm.Client) error) error {
	url, err := rdm.ServerURL(r.Args[0])
	if err != nil {
		return fault.Hint(fault.Usagef("%v", err), "one looks like http://127.0.0.1:8080/")
	}
	client := &rdm.Client{URL: url, UserAgent: reach.Agent(), HTTP: r.Remote(url).HTTP}
	return fault.About(r.Args[0], do(ctx, client))
}

// query reads the options of get.
func (r *rdmCall) query(client *rdm.Client) (q rdm.Request, err error) {
	q = rdm.Request{Catalog: client.CatalogID(r.catalog), Scope: r.scope, Attributes: r.attributes, Order: r.order, Hits: r.hits}
	name := strings.ToLower(r.typ)
	if !strings.Contains(name, "-") {
		name += "-request"
	}
	if q.Type, err = rdm.ParseType(name); err != nil || !q.Type.IsRequest() {
		return q, fault.Usagef("--type %.40q is none of rd-request, rd-request-deleted, server, schema, taxonomy, status", r.typ)
	}
	if r.since == "" {
		return q, nil
	}
	if r.scope != "" {
		return q, fault.Usagef("--scope and --since exclude each other")
	}
	t, err := time.Parse(time.RFC3339, r.since)
	if err != nil {
		t, err = http.ParseTime(r.since)
	}
	if err != nil {
		return q, fault.Usagef("--since %.40q is no date such as 2026-01-31T10:00:00Z", r.since)
	}
	q.Scope = rdm.Since(t)
	return q, nil
}

// get sends a query and prints the answer.
func (r *rdmCall) get(ctx context.Context, client *rdm.Client) error {
	q, err := r.query(client)
	if err != nil {
		return err
	}
	reply, err := client.Ask(ctx, q)
	if err != nil {
		return err
	}
	defer reply.Close()
	if reply.Error != "" && !strings.HasPrefix(reply.Error, "0 ") { // from a server without a status for it
		return errors.New(reply.Error)
	}
	if err := printObjects(r.call, r.form, func(print func(*soif.Object) error) error { return printReply(reply, print) }); err != nil {
		return err
	}
	if reply.Error != "" {
		r.Sayf("%s", reply.Error)
	}
	return nil
}

func printReply(reply *rdm.Reply, print func(*soif.Object) error) error {
	for {
		o, err := reply.Read()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = print(&o)
		}
		if err != nil {
			return err
		}
	}
}

// sentAtOnce is how many octets begin no other object in a message; see
// [rdm.DefaultObjects] as well.
const sentAtOnce = 16 << 20

// A sending is a sequence of messages.
type sending struct {
	*rdmCall
	client *rdm.Client
	print  func(*soif.Object) error

	message                  bytes.Buffer // to be sent
	objects                  int          // in it
	messages                 int          // sent
	sent, accepted, rejected int          // objects
}

// send submits the objects in files, many in a message. Those before a mistake are sent.
func (r *rdmCall) send(ctx context.Context, client *rdm.Client) error {
	return printObjects(r.call, r.form, func(print func(*soif.Object) error) error {
		s := &sending{rdmCall: r, client: client, print: print}
		var refused error // by the server: no more is sent
		mistake := eachFile(r.call, r.Args[1:], func(name string, in io.Reader) error {
			return readObjects(r.call, name, in, func(o *soif.Object) error {
				if s.objects == rdm.DefaultObjects || s.message.Len() >= sentAtOnce {
					if refused = s.flush(ctx); refused != nil {
						return refused
					}
				}
				if err := rdm.CheckPart(o); err != nil {
					return fault.Hint(err, "cutie rdm send writes the message itself, with --delete one that deletes")
				}
				s.objects++
				return o.Write(&s.message)
			})
		})
		if refused != nil {
			return refused
		}
		// A message without an object finds out whether the server takes it.
		if s.objects > 0 || s.messages == 0 && mistake == nil {
			refused = s.flush(ctx)
		}
		if mistake != nil && s.sent > 0 {
			r.Warnf("%d sent before the mistake, %d accepted", s.sent, s.accepted)
		} else if s.sent > 0 {
			r.Sayf("%d sent, %d accepted", s.sent, s.accepted)
		}
		if refused == nil && s.rejected > 0 {
			refused = fmt.Errorf("%d accepted, %d rejected", s.accepted, s.rejected)
		}
		return errors.Join(refused, mistake)
	})
}

// flush sends the message, prints the answer, and counts the results.
func (s *sending) flush(ctx context.Context) error {
	typ := rdm.RDResponse
	if s.remove {
		typ = rdm.RDResponseDeleted
	}
	s.sent, s.messages = s.sent+s.objects, s.messages+1
	reply, err := s.client.Send(ctx, typ, s.client.CatalogID(s.catalog), &s.message)
	if err != nil {
		return err
	}
	s.message.Reset()
	s.objects = 0
	if reply.Mended != "" {
		s.Warnf("the server mended: %s", reply.Mended)
	}
	if err := errors.Join(printReply(reply, s.print), reply.Close()); err != nil {
		return err
	}
	if reply.Status >= http.StatusBadRequest || reply.Error != "" {
		err := error(&web.Error{Status: max(reply.Status, http.StatusBadRequest), Message: reply.Error})
		if s.accepted > 0 {
			err = fmt.Errorf("%w; %d objects were accepted before", err, s.accepted)
		}
		return err
	}
	var accepted, rejected int
	if _, err := fmt.Sscanf(reply.Interpret, "%d accepted, %d rejected", &accepted, &rejected); err != nil {
		return fmt.Errorf("the server does not say how many objects it accepted, but %q", reply.Interpret)
	}
	s.accepted, s.rejected = s.accepted+accepted, s.rejected+rejected
	return nil
}

// inSOIF says what is read of files of SOIF.
const inSOIF = `
Text as people write it and as it is printed is read as it is meant, and each change
is named on standard error: sizes that do not fit, as in {x}, blanks in place of the TAB
after the colon, and text outside of objects, which is skipped. A size that fits counts;
with any other, the value ends before the next attribute, or the end of the object.`

func soifCheckVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [FILE…|-]",
		Short: "check descriptions in files of SOIF",
		Long: `
Reads files, or standard input, and prints how many objects (RFC 2655) each has, or where
it is not SOIF. Input without an object is an error, except an empty one.
` + inSOIF,
	}
	return c.Verb(cmd, optVerbose, func(context.Context) error {
		return c.Out.Text(func(w io.Writer) error {
			return eachFile(c, c.Args, func(name string, in io.Reader) error {
				n := 0
				err := readObjects(c, name, in, func(*soif.Object) error { n++; return nil })
				line := fmt.Sprintf("%s: %d objects", name, n)
				if n == 1 {
					line = name + ": 1 object"
				}
				if _, bad := errors.AsType[*soif.ParseError](err); bad {
					line += ", then a mistake"
				}
				_, failed := fmt.Fprintln(w, line)
				return cmp.Or(err, failed)
			})
		})
	})
}

func soifCatVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cat [FILE…|-]",
		Short: "print descriptions in files of SOIF, in the right form or as JSON",
		Long: `
Reads files, or standard input, and prints the objects (RFC 2655) in the form of -t. JSON
replaces octets that are no UTF-8. Input without an object is an error, except an empty
one.
` + inSOIF,
	}
	form := cmd.Flags().StringP("form", "t", soifForm, "print objects as `"+objectForms+"`")
	return c.Verb(cmd, optOutput|optVerbose, func(context.Context) error {
		return printObjects(c, *form, func(print func(*soif.Object) error) error {
			return eachFile(c, c.Args, func(name string, in io.Reader) error { return readObjects(c, name, in, print) })
		})
	})
}

// eachFile calls do with each file; "-", or no file, is standard input.
func eachFile(c *call, names []string, do func(name string, in io.Reader) error) error {
	if len(names) == 0 {
		names = []string{"-"}
	}
	for _, name := range names {
		if name == "-" {
			if err := do("standard input", c.Stdin); err != nil {
				return fault.About("standard input", err)
			}
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = do(name, f)
		f.Close()
		if err != nil {
			return fault.About(name, err)
		}
	}
	return nil
}

// readObjects calls do with each object. It says what was mended. Text without an object
// is no SOIF.
func readObjects(c *call, name string, in io.Reader, do func(*soif.Object) error) error {
	r, n := soif.NewReader(in), 0
	o, err := r.Read()
	for err == nil {
		n++
		if err = do(&o); err == nil {
			o, err = r.Read()
		}
	}
	mended, all := r.Mended()
	if err == io.EOF && n == 0 && all > 0 {
		return fault.Hint(errors.New("no object is in it"), "an object begins with @TYPE { URL, in UTF-8 or ASCII")
	}
	for _, text := range mended {
		c.Warnf("%s: %s", name, text)
	}
	if all > len(mended) {
		c.Warnf("%s: %d more mistakes of this kind", name, all-len(mended))
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// Forms of printed objects.
const (
	soifForm = "soif"
	jsonForm = "json" // an object a line
)

const objectForms = soifForm + "|" + jsonForm

// printObjects gives each a function that prints an object to the output file or to
// standard output.
func printObjects(c *call, form string, each func(print func(*soif.Object) error) error) error {
	var print func(w io.Writer, o *soif.Object) error
	switch strings.ToLower(form) {
	case soifForm:
		print = func(w io.Writer, o *soif.Object) error { return o.Write(w) }
	case jsonForm:
		print = objectLine
	default:
		return fault.Usagef("form %.40q is neither soif nor json", form)
	}
	return c.Out.Text(func(w io.Writer) error {
		return each(func(o *soif.Object) error { return print(w, o) })
	})
}

// objectLine prints a line. A repeated name has a list of values.
func objectLine(w io.Writer, o *soif.Object) error {
	attributes := map[string]any{}
	for _, a := range o.Attributes {
		switch had := attributes[a.Name].(type) {
		case nil:
			attributes[a.Name] = a.Value
		case string:
			attributes[a.Name] = []string{had, a.Value}
		case []string:
			attributes[a.Name] = append(had, a.Value)
		}
	}
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	return lines.Encode(struct {
		Type       string         `json:"type"`
		URL        string         `json:"url,omitempty"`
		Attributes map[string]any `json:"attributes"`
	}{o.Type, o.URL, attributes})
}
