// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/controllers/link/foreigncluster"
	"liqo.io/federation/test/integration/framework"
)

func TestConsumerPeersThroughAProxyAndReportsItsErrors(t *testing.T) {
	b := newPeeringConsumer(t, "proxied")
	for status, fragment := range map[int]string{
		http.StatusProxyAuthRequired: "the proxy proxy.example.com:3128: it requires a password for " +
			"rome.example.com:6443 (407 Proxy Authentication Required)",
		http.StatusBadGateway: "the proxy proxy.example.com:3128: it does not connect to rome.example.com:6443 " +
			"(502 Bad Gateway)",
	} {
		b.proxy.Refuse(status)
		b.await(t, "the consumer to report "+fragment, func(c *metav1.Condition) bool {
			return c.Reason == foreigncluster.ReasonProviderUnreachable && strings.Contains(c.Message, fragment)
		})
	}
	b.proxy.Refuse(0)
	// From here on, the proxy responds to clients before it is connected to the server.
	b.proxy.Hasty()
	b.account(t)
	b.await(t, "the consumer to have its identity", established)
	until(t, "the provider to answer the consumer",
		func(ctx context.Context) (bool, error) { return b.listRequests(ctx) == nil, nil })
	if others := slices.DeleteFunc(b.proxy.Asked(),
		func(asked string) bool { return "https://"+asked == framework.AdvertisedServer }); len(others) > 0 {
		t.Errorf("the proxy has other requests: %v", others)
	}
}

func TestPodsAreReachedThroughAProxy(t *testing.T) {
	for _, kind := range []string{byCertificate, byToken} {
		t.Run(kind, func(t *testing.T) {
			o := newOffload(t)
			proxy := o.StartProxy(t)
			o.options.Dial = proxy.Dial
			o.identify(t, kind, map[string]string{"server": framework.AdvertisedServer, "proxy": framework.ProxyURL})
			o.start(t)
			o.runsOnAKubelet(t, "proxied")
			if got := o.exec(t, "proxied", "print", "hello"); got != "[print hello]" {
				t.Errorf("exec is answered with %q", got)
			}
			if got := o.log(t, "proxied"); got != "a line\n" {
				t.Errorf("the log is %q", got)
			}
			if len(proxy.Asked()) == 0 {
				t.Error("no request used the proxy")
			}
		})
	}
}
