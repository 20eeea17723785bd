// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	fedfake "liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/test/fakes"
)

func reachOf(name, cluster string, addresses ...string) *v1alpha1.TunnelReach {
	return &v1alpha1.TunnelReach{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: name},
		Spec:       v1alpha1.TunnelReachSpec{ClusterID: cluster, Addresses: addresses},
	}
}

func TestReachOfAPeerIsTranslated(t *testing.T) {
	pods := []netip.Addr{addr("10.0.2.9"), addr("fd10::9")}
	for name, test := range map[string]struct {
		reach     v1alpha1.ReachMode
		object    *v1alpha1.TunnelReach
		offloaded bool
		want      []netip.Addr
		leftOut   string
	}{
		"empty is All": {"", reachOf("milan", "id-of-milan", "10.0.2.9"), false, nil, ""},
		"All":          {v1alpha1.ReachAll, reachOf("milan", "id-of-milan", "10.0.2.9"), false, nil, ""},
		"Offloaded": {
			v1alpha1.ReachOffloaded, reachOf("milan", "id-of-milan", "10.0.2.9", "fd10::9"), true, pods, "",
		},
		"no TunnelReach":        {v1alpha1.ReachOffloaded, nil, true, nil, ""},
		"of another peer":       {v1alpha1.ReachOffloaded, reachOf("turin", "id-of-turin", "10.0.2.9"), true, nil, ""},
		"of a previous cluster": {v1alpha1.ReachOffloaded, reachOf("milan", "id-of-turin", "10.0.2.9"), true, nil, ""},
		"unknown reach":         {"Few", reachOf("milan", "id-of-milan", "10.0.2.9"), true, pods[:1], ""},
		"malformed address": {
			v1alpha1.ReachOffloaded, reachOf("milan", "id-of-milan", "pod", "10.0.2.9"), true, pods[:1],
			`TunnelReach milan: "pod" is not an IP address`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			te := milan()
			te.Spec.Reach = test.reach
			o := objects(te)
			if test.object != nil {
				o.Reaches = append(o.Reaches, test.object)
			}
			got := Translate("rome-1", rome, o, firstEndpoint)
			if len(got.Input.Peers) != 1 || len(got.Refused) > 0 {
				t.Fatalf("refused: %v", got.Refused)
			}
			peer := got.Input.Peers[0]
			if diff := cmp.Diff(test.want, peer.Reachable, values); diff != "" || peer.Offloaded != test.offloaded {
				t.Errorf("offloaded %t; addresses (-want +got):\n%s", peer.Offloaded, diff)
			}
			if leftOut := strings.Join(got.LeftOut["milan"], "; "); leftOut != test.leftOut {
				t.Errorf("left out: %q", leftOut)
			}
		})
	}
}

// During an upgrade, the API server may serve no TunnelReaches yet. A gateway starts without them, and computes no
// state without them if a tunnel needs them. The ranges, by which it opens its sockets, do not depend on them.
func TestGatewayAwaitsTheTunnelReachesThatItNeeds(t *testing.T) {
	for _, test := range []struct {
		name  string
		reach v1alpha1.ReachMode
		fails bool
	}{{"All", "", false}, {"Offloaded", v1alpha1.ReachOffloaded, true}} {
		t.Run(test.name, func(t *testing.T) {
			te := milan()
			te.Namespace, te.Spec.Reach = "liqo", test.reach
			info := &v1alpha1.ClusterInfo{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterInfoName}}
			info.Status.Ranges = []v1alpha1.ClusterRange{{Use: v1alpha1.RangeOfPods, CIDR: "fd00:10:244::/56"}}
			federation := fedfake.NewClientset(te, info)
			var served atomic.Bool
			fakes.React(federation, "list", "tunnelreaches", func(clienttesting.Action) (bool, runtime.Object, error) {
				if !served.Load() {
					return true, nil, apierrors.NewNotFound(v1alpha1.Resource("tunnelreaches"), "")
				}
				reach := reachOf("milan", "id-of-milan", "10.0.2.9")
				return true, &v1alpha1.TunnelReachList{Items: []v1alpha1.TunnelReach{*reach}}, nil
			})
			changed := make(chan struct{}, 100)
			s, err := NewSources(kubefake.NewClientset(), federation, "liqo", GatewayName,
				func() { changed <- struct{}{} }, func(*coordinationv1.Lease) {}, func(*corev1.Secret) {}, func() {})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			if !s.Start(ctx, ctx) {
				t.Fatal("the caches were not filled")
			}
			if _, err := s.Objects(); (err != nil) != test.fails {
				t.Errorf("without TunnelReaches: %v", err)
			}
			if pods := s.Ranges().Pods; len(pods) != 1 || !pods[0].Addr().Is6() {
				t.Errorf("without TunnelReaches, the ranges of pods are %v", pods)
			}
			served.Store(true)
			for {
				o, err := s.Objects()
				if err == nil && len(o.Reaches) == 1 {
					return
				}
				select {
				case <-changed:
				case <-ctx.Done():
					t.Fatalf("%d TunnelReaches: %v", len(o.Reaches), err)
				}
			}
		})
	}
}
