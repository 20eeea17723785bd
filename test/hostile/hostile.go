// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostile has a provider whose administrator attacks its consumers with the responses of its API server.
package hostile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Attack is the response of a Provider to a request, instead of forwarding it.
type Attack string

// The attacks.
const (
	// EndlessText responds with endless text, to any request.
	EndlessText Attack = "EndlessText"
	// EndlessJSON responds with a list whose first item has an endless name.
	EndlessJSON Attack = "EndlessJSON"
	// UnknownType responds with an endless body of a media type that does not exist.
	UnknownType Attack = "UnknownType"
	// SwitchProtocols responds with 101, and then sends endlessly on the connection.
	SwitchProtocols Attack = "SwitchProtocols"
	// ManyItems responds endlessly with lists of a million empty items, or to a watch with events whose objects are such
	// lists.
	ManyItems Attack = "ManyItems"
	// ManyItemsInYAML responds with a list of a million empty items in YAML, which was not requested.
	ManyItemsInYAML Attack = "ManyItemsInYAML"
	// ManyItemsInProtobuf responds with such a list in protobuf, or to a watch with events whose objects are such lists.
	ManyItemsInProtobuf Attack = "ManyItemsInProtobuf"
	// ManyItemsUntyped is ManyItemsInProtobuf without a media type. Clients decode it in the encoding of their requests.
	ManyItemsUntyped Attack = "ManyItemsUntyped"
	// LongNames responds endlessly with events of objects whose names have a megabyte.
	LongNames Attack = "LongNames"
	// ValidEvents responds to watches with valid objects, which have another name in each event. It closes each watch
	// after a few thousand of them, without an error, so that the client watches again without listing the objects.
	ValidEvents Attack = "ValidEvents"
	// ValidList responds to lists with very many valid objects.
	ValidList Attack = "ValidList"
	// Dribble responds with one byte per second.
	Dribble Attack = "Dribble"
	// RetryAfter responds with 429, and with Retry-After of a year.
	RetryAfter Attack = "RetryAfter"
	// Silence never responds.
	Silence Attack = "Silence"
	// Redirect redirects to the metadata service of a cloud.
	Redirect Attack = "Redirect"
)

// Attacks has all attacks. Those that need watches which were opened before are first.
var Attacks = []Attack{
	ValidEvents, ValidList, EndlessText, EndlessJSON, UnknownType, SwitchProtocols, ManyItems, ManyItemsInYAML,
	ManyItemsInProtobuf, ManyItemsUntyped, LongNames, Dribble, RetryAfter, Silence, Redirect,
}

// chunk is the length in bytes of one write of an endless body.
const chunk = 64 << 10

// Provider is a reverse proxy in front of the API server of a provider. It attacks all requests, or forwards them.
type Provider struct {
	forward http.Handler

	// objects is the number of valid objects that were sent.
	objects atomic.Int64

	mu     sync.Mutex
	attack Attack
	sent   map[Attack]int
}

// New returns a provider that forwards all requests to an API server, with this transport, until Use is called.
func New(server *url.URL, transport http.RoundTripper) *Provider {
	forward := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(server)
			// The transport has credentials of its own.
			r.Out.Header.Del("Authorization")
		},
	}
	return &Provider{forward: forward, sent: map[Attack]int{}}
}

// Use replaces the attack. The empty attack forwards requests.
func (p *Provider) Use(attack Attack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attack = attack
}

// Sent returns the number of requests to which each attack was applied.
func (p *Provider) Sent() map[Attack]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.sent)
}

func (p *Provider) choose(r *http.Request) Attack {
	p.mu.Lock()
	defer p.mu.Unlock()
	if (p.attack == ValidEvents || p.attack == ValidList) && kindOf(r) == "" {
		return ""
	}
	if p.attack != "" {
		p.sent[p.attack]++
	}
	return p.attack
}

// ServeHTTP implements http.Handler. It returns when the client closes the connection, or after five minutes.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	attack := p.choose(r)
	if attack == "" {
		p.forward.ServeHTTP(w, r)
		return
	}
	// A server detects that the client closed its connection only once the body is read.
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	const asJSON, asProtobuf = runtime.ContentTypeJSON, runtime.ContentTypeProtobuf
	switch attack {
	case EndlessText:
		endless(w, r, "text/plain", "", text)
	case UnknownType:
		endless(w, r, "application/x-unknown", "", text)
	case EndlessJSON:
		endless(w, r, asJSON, `{"items":[{"metadata":{"name":"`, text)
	case ManyItems:
		endless(w, r, asJSON, "", manyItems(r))
	case ManyItemsInYAML:
		respond(w, runtime.ContentTypeYAML, millionItems())
	case ManyItemsInProtobuf:
		respond(w, asProtobuf, manyItemsInProtobuf(r))
	case ManyItemsUntyped:
		respond(w, "", manyItemsInProtobuf(r))
	case LongNames:
		endless(w, r, asJSON, "", longName())
	case ValidEvents:
		p.validObjects(w, r, 1)
	case ValidList:
		p.validObjects(w, r, 100_000)
	case Dribble:
		dribble(w, r)
	case RetryAfter:
		w.Header().Set("Retry-After", "31536000")
		w.WriteHeader(http.StatusTooManyRequests)
	case Silence:
		wait(r)
	case Redirect:
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusTemporaryRedirect)
	case SwitchProtocols:
		switchProtocols(w, r)
	}
}

var (
	// millionItems is a list with a million empty items.
	millionItems = sync.OnceValue(func() string {
		return `{"items":[` + strings.TrimSuffix(strings.Repeat("{},", 1_000_000), ",") + `]}`
	})
	// millionProtobufItems is a list with a million empty items of two bytes.
	millionProtobufItems = sync.OnceValue(func() []byte {
		list := runtime.Unknown{
			TypeMeta: runtime.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ResourceOfferList"},
			// The field 2 of a list has an item.
			Raw: bytes.Repeat([]byte{2<<3 | 2, 0}, 1_000_000),
		}
		return append([]byte("k8s\x00"), marshal(&list)...)
	})
	// longName is an event with an object whose name has a megabyte.
	longName = sync.OnceValue(func() string {
		name := strings.Repeat("x", 1<<20)
		return fmt.Sprintf(`{"type":"ADDED","object":{"metadata":{"name":%q,"labels":{%q:%q}}}}`+"\n", name, name, name)
	})
	text, zeros = strings.Repeat("x", chunk), make([]byte, chunk)
)

// manyItems returns a list with a million empty items, or for a watch an event whose object is such a list.
func manyItems(r *http.Request) string {
	if r.URL.Query().Has("watch") {
		return `{"type":"ADDED","object":` + millionItems() + "}\n"
	}
	return millionItems()
}

// manyItemsInProtobuf is manyItems in protobuf.
func manyItemsInProtobuf(r *http.Request) string {
	if !r.URL.Query().Has("watch") {
		return string(millionProtobufItems())
	}
	event := marshal(&metav1.WatchEvent{
		Type: string(watch.Added), Object: runtime.RawExtension{Raw: millionProtobufItems()},
	})
	// The length precedes each event.
	return string(append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...))
}

func marshal(message interface{ Marshal() ([]byte, error) }) []byte {
	encoded, err := message.Marshal()
	if err != nil {
		panic(err)
	}
	return encoded
}

// respond sends one response, without a media type if it is empty.
func respond(w http.ResponseWriter, mediaType, body string) {
	if mediaType == "" {
		// net/http would set the header if it were missing.
		w.Header()["Content-Type"] = nil
	} else {
		w.Header().Set("Content-Type", mediaType)
	}
	// The client may disconnect, because it refuses the response.
	_, _ = io.WriteString(w, body)
}

// duration is the time after which an attack ends, so that no test leaves one behind.
const duration = 5 * time.Minute

func wait(r *http.Request) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-r.Context().Done():
	case <-timer.C:
	}
}

// endless sends one text, the argument first, and then repeats another one, the argument again, until the client
// disconnects or the time duration has passed.
func endless(w http.ResponseWriter, r *http.Request, mediaType, first, again string) {
	w.Header().Set("Content-Type", mediaType)
	if _, err := io.WriteString(w, first); err != nil {
		return
	}
	for end := time.Now().Add(duration); time.Now().Before(end) && r.Context().Err() == nil; {
		if _, err := io.WriteString(w, again); err != nil {
			return
		}
	}
}

func dribble(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for end := time.Now().Add(duration); time.Now().Before(end); {
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		}
		if _, err := io.WriteString(w, "x"); err != nil {
			return
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
	}
}

func switchProtocols(w http.ResponseWriter, _ *http.Request) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		// HTTP/2 cannot switch protocols.
		w.WriteHeader(http.StatusSwitchingProtocols)
		return
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(duration)); err != nil {
		return
	}
	if _, err := io.WriteString(connection,
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: anything\r\n\r\n"); err != nil {
		return
	}
	for {
		if _, err := connection.Write(zeros); err != nil {
			return
		}
	}
}
