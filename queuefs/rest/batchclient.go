package rest

import (
	"context"
	"errors"
	"net/http"

	"cutie/queuefs/state"
)

// SubmitManifest submits the files in a batch manifest, all of them or none,
// and returns the identifiers of the jobs in the order of the lines (Cutie
// 5.5). It waits until the service has fetched them. Name and media type of u
// have no meaning, and a sidecar is refused.
func (c *Client) SubmitManifest(ctx context.Context, queue string, u Upload) ([]string, error) {
	resp, err := c.postManifest(ctx, queue, u, "")
	if err != nil {
		return nil, err
	}
	q, err := decodeQueue(readState(resp))
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(q.Submitted))
	for i, id := range q.Submitted {
		ids[i] = id.String()
	}
	return ids, nil
}

// StartManifest is SubmitManifest without waiting: it returns the identifier of
// the batch, for [Client.Batch].
func (c *Client) StartManifest(ctx context.Context, queue string, u Upload) (id string, err error) {
	resp, err := c.postManifest(ctx, queue, u, "respond-async")
	if err != nil {
		return "", err
	}
	data, err := readState(resp)
	if err != nil {
		return "", err
	}
	b, err := decodeBatch(data)
	if err == nil && resp.StatusCode != http.StatusAccepted {
		err = errors.New("service did not begin a batch")
	}
	return b.ID, err
}

// Batch returns how far a batch is.
func (c *Client) Batch(ctx context.Context, queue, id string) (state.Batch, error) {
	data, err := c.state(ctx, http.MethodGet, state.ANVL, c.ref(nil, "batch", queue, id), nil, nil)
	if err != nil {
		return state.Batch{}, err
	}
	return decodeBatch(data)
}

func decodeBatch(data []byte) (state.Batch, error) {
	d, err := state.ANVL.Decode(state.BatchClass, data)
	if err != nil {
		return state.Batch{}, err
	}
	return d.Batch()
}

func (c *Client) postManifest(ctx context.Context, queue string, u Upload, prefer string) (*http.Response, error) {
	if u.Sidecar != "" {
		return nil, errors.New("a sidecar belongs to a single job, not to a batch manifest")
	}
	req, err := c.bareRequest(ctx, queue, &u)
	if err != nil {
		return nil, err
	}
	query := req.URL.Query()
	query.Set("type", "batch-manifest")
	req.URL.RawQuery = query.Encode()
	req.Header.Set("Accept", state.ANVL.MediaType())
	if u.Submitter != "" {
		req.Header.Set("User-Agent", u.Submitter)
	}
	if prefer != "" {
		req.Header.Set("Prefer", prefer)
	}
	return c.Do(req)
}
