package rest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"cutie/queuefs"
)

// NextMessage is [Client.Next] for the unchanged message of the service: a
// message of multipart/form-data (Cutie 5.6), with the header for its parts.
// MediaType, Size and Body are of the message; Filename and Sidecar are among
// its parts. t may ask for a lease; its Max does not count.
func (c *Client) NextMessage(ctx context.Context, queue string, t queuefs.Take, wait time.Duration) (*Delivery, error) {
	t.Max = 0
	resp, err := c.consumeAs(ctx, queue, t, wait, "multipart/form-data")
	if err != nil {
		return nil, err
	}
	return c.message(ctx, resp)
}

// PeekMessage is [Client.Peek] for the unchanged message (Cutie 5.7), like
// [Client.NextMessage].
func (c *Client) PeekMessage(ctx context.Context, queue, job string) (*Delivery, error) {
	resp, err := c.take(ctx, http.MethodGet, c.contentRef(queue, job), "", "multipart/form-data")
	if err != nil {
		return nil, err
	}
	return c.message(ctx, resp)
}

// message puts the header of an answer before its body. Nothing secret is in
// it: the token of a lease is given beside it.
func (c *Client) message(ctx context.Context, resp *http.Response) (*Delivery, error) {
	d, err := c.delivery(ctx, resp)
	if err != nil {
		return nil, err
	}
	head := fmt.Appendf(nil, "MIME-Version: 1.0\r\nContent-Type: %s\r\nContent-Location: %s\r\n\r\n",
		d.MediaType, resp.Header.Get("Content-Location"))
	d.Size += int64(len(head))
	d.Body = headed{io.MultiReader(bytes.NewReader(head), d.Body), d.Body}
	return d, nil
}

// A headed body has something before it.
type headed struct {
	io.Reader
	io.Closer
}
