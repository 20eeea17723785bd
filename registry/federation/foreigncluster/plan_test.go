// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/test/fakes"
)

var dryRun = []string{metav1.DryRunAll}

// planned updates the Peering in a dry run.
func (w *world) planned(t *testing.T, change func(*federation.Peering)) (*federation.Peering, error) {
	t.Helper()
	info := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		peering := old.DeepCopyObject().(*federation.Peering)
		change(peering)
		return peering, nil
	})
	obj, _, err := w.Update(request(t), "milan", info, rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false,
		&metav1.UpdateOptions{DryRun: dryRun})
	if err != nil {
		return nil, err
	}
	return obj.(*federation.Peering), nil
}

func TestPeerDryRunsReturnThePlan(t *testing.T) {
	unpeer := func(w *world, t *testing.T) (*federation.Peering, error) {
		obj, _, err := w.Delete(request(t), "milan", rest.ValidateAllObjectFunc, &metav1.DeleteOptions{DryRun: dryRun})
		if err != nil {
			return nil, err
		}
		return obj.(*federation.Peering), nil
	}
	for name, test := range map[string]struct {
		peered   bool
		incoming bool
		noSecret bool
		request  func(w *world, t *testing.T) (*federation.Peering, error)
		action   federation.PlanAction
		evicted  int32
	}{
		"a first POST": {
			request: func(w *world, t *testing.T) (*federation.Peering, error) { return w.post(t, invitation(), dryRun...) },
			action:  federation.PlanCreate,
		},
		"the same POST again": {
			peered:  true,
			request: func(w *world, t *testing.T) (*federation.Peering, error) { return w.post(t, invitation(), dryRun...) },
			action:  federation.PlanNone,
		},
		"a PATCH that changes nothing": {
			peered: true,
			request: func(w *world, t *testing.T) (*federation.Peering, error) {
				return w.planned(t, func(*federation.Peering) {})
			},
			action: federation.PlanNone,
		},
		"a PATCH with another disconnect timeout": {
			peered: true,
			request: func(w *world, t *testing.T) (*federation.Peering, error) {
				return w.planned(t, func(p *federation.Peering) { p.Spec.DisconnectTimeoutSeconds = ptr.To[int32](7) })
			},
			action: federation.PlanChange,
		},
		"a PATCH with another token": {
			peered: true,
			request: func(w *world, t *testing.T) (*federation.Peering, error) {
				return w.planned(t, func(p *federation.Peering) { p.Spec.Token = "another" })
			},
			action: federation.PlanChange,
		},
		"a PATCH with the stored token": {
			peered: true,
			request: func(w *world, t *testing.T) (*federation.Peering, error) {
				return w.planned(t, func(p *federation.Peering) { p.Spec.Token = secretToken })
			},
			action: federation.PlanNone,
		},
		"a PATCH with the stored token and another disconnect timeout": {
			peered: true,
			request: func(w *world, t *testing.T) (*federation.Peering, error) {
				return w.planned(t, func(p *federation.Peering) {
					p.Spec.Token, p.Spec.DisconnectTimeoutSeconds = secretToken, ptr.To[int32](7)
				})
			},
			action: federation.PlanChange,
		},
		"a PATCH with a token whose Secret was deleted": {
			peered: true, noSecret: true,
			request: func(w *world, t *testing.T) (*federation.Peering, error) {
				return w.planned(t, func(p *federation.Peering) { p.Spec.Token = secretToken })
			},
			action: federation.PlanChange,
		},
		"a PATCH that unpeers": {
			peered: true,
			request: func(w *world, t *testing.T) (*federation.Peering, error) {
				return w.planned(t, func(p *federation.Peering) { p.Spec.Outgoing = federation.PeeringDisabled })
			},
			action: federation.PlanChange, evicted: 3,
		},
		"a DELETE": {peered: true, request: unpeer, action: federation.PlanDelete, evicted: 3},
		"a DELETE of a cluster that is also a consumer": {peered: true, incoming: true, request: unpeer,
			action: federation.PlanChange, evicted: 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			if test.peered {
				if _, err := w.post(t, invitation()); err != nil {
					t.Fatal(err)
				}
			}
			if test.incoming {
				cluster, _ := w.clusters.Stored("milan")
				cluster = cluster.DeepCopy()
				cluster.Spec.Incoming = federation.PeeringEnabled
				w.clusters.Put(cluster)
			}
			if test.noSecret {
				if err := w.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("secrets"), namespace,
					"invitation-milan"); err != nil {
					t.Fatal(err)
				}
			}
			for _, verb := range []string{"create", "update"} {
				fakes.React(w.kube, verb, "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
					options, ok := action.(interface{ GetUpdateOptions() metav1.UpdateOptions })
					if ok && len(options.GetUpdateOptions().DryRun) > 0 {
						return true, action.(clienttesting.UpdateAction).GetObject(), nil
					}
					created, ok := action.(interface{ GetCreateOptions() metav1.CreateOptions })
					if ok && len(created.GetCreateOptions().DryRun) > 0 {
						return true, action.(clienttesting.CreateAction).GetObject(), nil
					}
					return false, nil, nil
				})
			}
			writes, token := w.clusters.Writes(), w.token(t)
			answer, err := test.request(w, t)
			if err != nil {
				t.Fatal(err)
			}
			if w.clusters.Writes() != writes || w.token(t) != token {
				t.Error("a dry run wrote something")
			}
			plan := answer.Status.Plan
			if plan == nil {
				t.Fatal("the response has no plan")
			}
			if plan.Action != test.action || plan.EvictedPods != test.evicted {
				t.Errorf("the plan is to %s, and to evict %d pods", plan.Action, plan.EvictedPods)
			}
			var listed []string
			for _, volume := range plan.Volumes {
				listed = append(listed, volume.Namespace+"/"+volume.Name+": "+string(volume.OnUnoffload))
			}
			if unpeered := test.evicted > 0; unpeered != slices.Equal(listed, []string{"shop/data: Refuse", "web/data: Move"}) {
				t.Errorf("the plan lists the volumes %q", listed)
			}
			if plan.ForeignCluster != "milan" || plan.PeerNamespace != "liqo-peer-milan" || plan.VirtualNode != "liqo-milan" ||
				plan.Server == "" || plan.ClusterID != milanID || (len(plan.Unknown) == 0) != (test.action == federation.PlanNone) {
				t.Errorf("the plan is %+v", plan)
			}
		})
	}
}

func TestPeerPlansNameConflicts(t *testing.T) {
	for message, change := range map[string]func(*world, *federation.Peering){
		"cannot be its own provider": func(_ *world, p *federation.Peering) { p.Spec.ClusterID = romeID },
		"ForeignCluster turin has the same cluster ID": func(w *world, _ *federation.Peering) {
			w.clusters.Put(&federation.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "turin"},
				Spec: federation.ForeignClusterSpec{ClusterID: milanID}})
		},
		"Namespace liqo-peer-milan exists": func(w *world, _ *federation.Peering) {
			if err := w.kube.Tracker().Add(
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-peer-milan"}}); err != nil {
				panic(err)
			}
		},
		"Node liqo-milan exists": func(w *world, _ *federation.Peering) {
			if err := w.kube.Tracker().Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "liqo-milan"}}); err != nil {
				panic(err)
			}
		},
	} {
		t.Run(message, func(t *testing.T) {
			w := newWorld()
			fakes.React(w.kube, "create", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
				return true, action.(clienttesting.CreateAction).GetObject(), nil
			})
			peering := invitation()
			change(w, peering)
			answer, err := w.post(t, peering, dryRun...)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(answer.Status.Plan.Conflicts,
				func(conflict string) bool { return strings.Contains(conflict, message) }) {
				t.Errorf("the conflicts are %q", answer.Status.Plan.Conflicts)
			}
		})
	}
}

func TestOnlyDryRunsReturnAPlan(t *testing.T) {
	w := newWorld()
	answer, err := w.post(t, invitation())
	if err != nil {
		t.Fatal(err)
	}
	if answer.Status.Plan != nil {
		t.Errorf("the plan is %+v", answer.Status.Plan)
	}
}
