// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

const (
	// responseTimeout is the timeout for the header of a response, and for the body of one that is not a stream.
	responseTimeout = 30 * time.Second
	// callTimeout is the maximum time for which a call waits to begin while Limits.Calls others wait for their responses.
	callTimeout = time.Second
	// maxHeader is the maximum length of the header of a response, in bytes.
	maxHeader = 64 << 10
)

var (
	// ErrRedirect is returned for a redirect, which no API server sends.
	ErrRedirect = errors.New("the peer redirects, which is refused: " +
		"set spec.server of the ForeignCluster to the URL to which it redirects")
	// ErrUpgrade is returned for a response that switches protocols although the request does not permit it.
	ErrUpgrade = errors.New("the peer switched protocols, which the request does not permit")
	// ErrBusy is returned for a call that could not begin within callTimeout, because Limits.Calls others wait for their
	// responses, or at once, because calls to slow peers do.
	ErrBusy = errors.New("the peer has not responded to earlier requests yet")
	// ErrResponseTooLarge is returned for a response that exceeds Limits.Response, or that makes the watches of the same
	// objects exceed Limits.Watch.
	ErrResponseTooLarge = errors.New("the peer's response is larger than this cluster reads")
	// ErrEncoding is returned for a response in an encoding, apart from JSON, that clients of Kubernetes decode. Its
	// elements cannot be counted before it is decoded.
	ErrEncoding = errors.New("the peer's response is YAML, protobuf or CBOR although JSON was requested, " +
		"which is refused: use an API server or proxy that responds with JSON")
	// ErrTooManyElements is returned for a JSON response that exceeds Limits.Elements or Limits.Objects, or is nested
	// deeper than maxDepth.
	ErrTooManyElements = errors.New("the peer's response has more or deeper nested elements than this cluster reads")
	// ErrTooManyEvents is returned for a watch that makes the watches of the same objects exceed Limits.Objects. Informers
	// then list the objects again.
	ErrTooManyEvents = errors.New("the peer sent as many events as this cluster reads before it lists the objects again")
	// ErrReset is returned for a connection that the peer, or a machine on the way to it, ended while a request waited for
	// its response.
	ErrReset = errors.New("the connection to the peer was reset before it responded")

	errResponseTimeout = fmt.Errorf("the peer did not respond within %v", responseTimeout)
)

// Limits bound what a client reads of a peer.
type Limits struct {
	// Response is the maximum length of a response that is not a stream, in bytes.
	Response int64
	// Watch is the maximum length of all watches of the same objects together, in bytes, after which informers list the
	// objects again. The pages of a list after the first one have the same maximum. 0 means no limit for them, and
	// Response for each event: client-go reads an event into memory before it checks its size.
	Watch int64
	// Objects is the maximum number of objects in a list, and of events in all watches of the same objects together, after
	// which informers list the objects again. So the cache of an informer has at most twice that number, or three times if
	// the list has pages. 0 means no limit.
	Objects int64
	// Calls is the maximum number of concurrent calls, apart from streams, so that a peer that does not respond occupies
	// few of the workers that serve all peers. After a call timed out, it is one, until a call is answered. 0 means no
	// limit.
	Calls int
	// Elements is the number of array elements that a response may have whatever its length; each minElement bytes of the
	// response permit one more. The objects of a list count, too. In a watch, Elements applies to the whole watch, or to
	// each event if Watch is 0. If Elements is not 0, clients request JSON only, and responses in other encodings that
	// they decode are refused. 0 means no limit.
	Elements int64
}

var (
	// SharedLimits are for clients of a process with several peers, which caches few and small objects of each: the
	// largest permitted responses of one peer take much less memory than the process has. A list of objects of more than
	// 1.4 kB each exceeds Response before it exceeds Objects.
	SharedLimits = Limits{Response: 4 << 20, Watch: 8 << 20, Objects: 3_000, Elements: 10_000, Calls: 8}
	// OwnLimits are for clients of a process with one peer: if its responses exhaust the memory of the process, no other
	// peer is affected. Each informer watches one remote namespace, which has fewer than Objects pods.
	OwnLimits = Limits{Response: 16 << 20, Objects: 20_000, Elements: 100_000}
)

// guard is a transport for responses that are not trusted. It refuses redirects, unrequested protocol switches and
// unrequested encodings, and bounds length, elements and duration of responses, and the number of concurrent calls. It
// removes Retry-After, because client-go waits for that time within the call: callers have delays of their own. Whether
// a response is a stream, which is bounded less, is decided by the request alone: client-go reads the responses of all
// other requests into memory, whatever their media type.
type guard struct {
	next   http.RoundTripper
	limits Limits
	// calls limits the concurrent calls; nil means that they are not limited.
	calls *Calls
	// received counts what informers keep.
	received received
	// refused is called with the error of each refused response.
	refused func(error)
}

func newGuard(next http.RoundTripper, limits Limits, calls *Calls, refused func(error)) *guard {
	return &guard{next: next, limits: limits, calls: calls, refused: refused}
}

// RoundTrip implements http.RoundTripper. It fails with ErrBusy, ErrRedirect, ErrUpgrade, ErrEncoding, ErrReset or a
// timeout; reading the body fails with ErrResponseTooLarge, ErrTooManyElements, ErrTooManyEvents or a timeout.
func (g *guard) RoundTrip(request *http.Request) (*http.Response, error) {
	if g.calls == nil || streamOf(request) != notAStream {
		return g.roundTrip(request)
	}
	end, err := g.calls.begin(request.Context())
	if err != nil {
		if errors.Is(err, ErrBusy) {
			g.refused(err)
		}
		return nil, err
	}
	response, err := g.roundTrip(request)
	if err != nil {
		end(err)
		return nil, err
	}
	response.Body = &endingBody{ReadCloser: response.Body, end: end}
	return response, nil
}

// endingBody is the body of a response to a call that counts for Limits.Calls until the body is closed.
type endingBody struct {
	io.ReadCloser
	// end ends the call with its error.
	end func(error)
	// late is true after Read failed with the timeout for responses.
	late atomic.Bool
	once sync.Once
}

// Read implements io.Reader.
func (b *endingBody) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	if errors.Is(err, errResponseTimeout) {
		b.late.Store(true)
	}
	return n, err
}

// Close implements io.Closer.
func (b *endingBody) Close() error {
	defer b.once.Do(func() {
		if b.late.Load() {
			b.end(errResponseTimeout)
		} else {
			b.end(nil)
		}
	})
	return b.ReadCloser.Close()
}

func (g *guard) roundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	timer := time.AfterFunc(responseTimeout, func() { cancel(errResponseTimeout) })
	kind, counts := streamOf(request), g.limits.Elements > 0
	sent := request.WithContext(ctx)
	if counts && (kind == notAStream || kind == watchStream) {
		sent = requestingJSON(sent)
	}
	response, err := g.next.RoundTrip(sent)
	if err != nil {
		timer.Stop()
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, errResponseTimeout):
			err = cause
			g.refused(err)
		case utilnet.IsConnectionReset(err), utilnet.IsHTTP2ConnectionLost(err):
			// client-go repeats a read up to ten times after these errors, each time with a new deadline. The error is not
			// wrapped, so that the deadline of this call is that of the whole read: callers retry with delays of their own.
			err = ErrReset
		}
		cancel(err)
		return nil, err
	}
	// client-go decodes a response that is not successful, too.
	decoded := kind == notAStream || kind == watchStream || response.StatusCode != http.StatusOK
	switch {
	case response.StatusCode == http.StatusSwitchingProtocols && kind == upgradedStream:
		// The body is the connection itself, which must not be wrapped.
		timer.Stop()
		context.AfterFunc(request.Context(), func() { cancel(context.Canceled) })
		return response, nil
	case response.StatusCode == http.StatusSwitchingProtocols:
		err = ErrUpgrade
	case response.StatusCode >= 300 && response.StatusCode < 400:
		err = ErrRedirect
	case decoded && counts && refusedEncoding(mediaTypeOf(response)):
		err = ErrEncoding
	}
	if err != nil {
		timer.Stop()
		g.refused(err)
		err = fmt.Errorf("%s responds with %s: %w", request.URL.Host, Text(response.Status), err)
		err = errors.Join(err, response.Body.Close())
		cancel(err)
		return nil, err
	}
	response.Header.Del("Retry-After")
	body := &guardedBody{ReadCloser: response.Body, ctx: ctx, cancel: cancel, timer: timer, refused: g.refused}
	if decoded && counts {
		body.meter = &meter{
			free: g.limits.Elements, watch: kind == watchStream, unknown: !isJSON(mediaTypeOf(response)),
		}
		body.maxObjects = g.limits.Objects
		ensureMediaType(response)
	}
	if response.StatusCode == http.StatusOK {
		body.sum, body.maxSum = g.received.sum(request, kind), g.limits.Watch
	}
	switch {
	case kind == notAStream || response.StatusCode != http.StatusOK:
		body.limit = g.limits.Response
	case kind == watchStream:
		timer.Stop()
		if body.meter != nil && g.limits.Watch == 0 {
			body.meter.perValue, body.valueLimit = true, g.limits.Response
		}
	default:
		timer.Stop()
	}
	response.Body = body
	return response, nil
}

// WrappedRoundTripper implements net.RoundTripperWrapper of apimachinery.
func (g *guard) WrappedRoundTripper() http.RoundTripper { return g.next }

// stream is the kind of the response to a request: one object, or a kind of stream.
type stream int

const (
	// notAStream is the kind of requests whose response is one object.
	notAStream stream = iota
	// watchStream is the kind of watches, whose response is a sequence of objects.
	watchStream
	// logStream is the kind of requests for logs. A caller copies them without holding them in memory.
	logStream
	// upgradedStream is the kind of exec, attach and port-forward.
	upgradedStream
)

// streamOf returns the kind of an API server's response to a request.
func streamOf(request *http.Request) stream {
	switch folder, name := path.Split(request.URL.Path); {
	case request.Header.Get("Upgrade") != "":
		return upgradedStream
	case request.Method != http.MethodGet:
		return notAStream
	case name == "log" && strings.Contains(folder, "/pods/"):
		return logStream
	}
	if watch, err := strconv.ParseBool(request.URL.Query().Get("watch")); err == nil && watch {
		return watchStream
	}
	return notAStream
}

type guardedBody struct {
	io.ReadCloser
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	refused func(error)
	// limit is the maximum length of the body in bytes; 0 means no limit. read is the number of bytes that were read.
	limit, read int64
	// valueLimit is the maximum length of each value of a sequence, which meter measures; 0 means no limit.
	valueLimit int64
	// meter counts the elements and objects of the response. nil means that they are not limited.
	meter *meter
	// maxObjects is the maximum number of objects; 0 means no limit.
	maxObjects int64
	// sum adds to what was received in several responses; nil if the response does not continue another one. maxSum is
	// the maximum number of bytes, and maxObjects also that of objects, in these responses; 0 means no limit.
	sum    func(amount) amount
	maxSum int64
	// counted is the number of objects that were passed to sum.
	counted int64
	err     error
}

// Read implements io.Reader.
func (b *guardedBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	switch {
	case b.limit > 0 && b.read > b.limit:
		return b.refuse(ErrResponseTooLarge)
	case b.meter != nil && !b.meter.admits(p[:n]):
		return b.refuse(ErrTooManyElements)
	case b.valueLimit > 0 && b.meter.bytes > b.valueLimit:
		return b.refuse(ErrResponseTooLarge)
	}
	if refused := b.exceeded(int64(n)); refused != nil {
		return b.refuse(refused)
	}
	if err != nil && errors.Is(context.Cause(b.ctx), errResponseTimeout) {
		return b.refuse(errResponseTimeout)
	}
	return n, err
}

// exceeded adds n bytes, and the objects in them, to what was received. It returns an error if that is too much.
func (b *guardedBody) exceeded(n int64) error {
	var objects int64
	if b.meter != nil {
		objects = b.meter.objects
	}
	total := amount{objects: objects}
	if b.sum != nil {
		total = b.sum(amount{bytes: n, objects: objects - b.counted})
		b.counted = objects
	}
	switch {
	case b.maxSum > 0 && total.bytes > b.maxSum:
		return ErrResponseTooLarge
	case b.maxObjects == 0 || total.objects <= b.maxObjects:
		return nil
	case b.meter.watch:
		return ErrTooManyEvents
	}
	return ErrTooManyElements
}

func (b *guardedBody) refuse(err error) (int, error) {
	b.err = err
	b.refused(err)
	b.cancel(err)
	return 0, err
}

// Close closes the body and cancels the request.
func (b *guardedBody) Close() error {
	b.timer.Stop()
	err := b.ReadCloser.Close()
	b.cancel(context.Canceled)
	return err
}
