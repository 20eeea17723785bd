// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/registry/rest"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/test/etcd"
)

func TestConsumerMountsOnlyOfferedExternalVolumes(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.offer(t, "milan", "rome", amounts("pods", "10"))
	s.offer(t, "milan", "rome-nfs", amounts("pods", "1"))
	s.offer(t, "milan", "rome-withdrawn", amounts("pods", "1"))
	s.offer(t, "turin", "rome", amounts("pods", "10"))
	s.offers.Change(t, "milan", "rome", func(offer *federation.ResourceOffer) {
		offer.Spec.ExternalVolumes.CSIDrivers = []string{"secrets-store.csi.k8s.io"}
	})
	s.offers.Change(t, "milan", "rome-nfs", func(offer *federation.ResourceOffer) {
		offer.Spec.ExternalVolumes.Types = []string{"nfs"}
	})
	s.offers.Change(t, "milan", "rome-withdrawn", func(offer *federation.ResourceOffer) {
		offer.Spec.ExternalVolumes.Types, offer.Spec.Withdrawn = []string{"iscsi"}, true
	})

	nfs := corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "192.0.2.7", Path: "/data"}}
	iscsi := corev1.VolumeSource{
		ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "192.0.2.7", IQN: "iqn.2026-11.org.example:data"},
	}
	csi := func(driver string) corev1.VolumeSource {
		return corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driver}}
	}
	for _, test := range []struct {
		name, namespace string
		source          corev1.VolumeSource
		// field and message are in the error. If field is empty, the shadow pod is created.
		field, message string
	}{
		{name: "no-external-volume", namespace: "lab", source: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{name: "type-of-one-offer", namespace: "web", source: nfs},
		{name: "driver-of-another", namespace: "shop", source: csi("secrets-store.csi.k8s.io")},
		{name: "type-of-no-offer", namespace: "lab", source: nfs,
			field: "spec.pod.volumes[0].nfs", message: "type nfs is not offered (offered: none)"},
		{name: "type-of-a-withdrawn-offer", namespace: "web", source: iscsi,
			field: "spec.pod.volumes[0].iscsi", message: "type iscsi is not offered (offered: nfs)"},
		{name: "another-driver", namespace: "web", source: csi("image.csi.k8s.io"), field: "spec.pod.volumes[0].csi.driver",
			message: "driver image.csi.k8s.io is not offered (offered: secrets-store.csi.k8s.io)"},
		{name: "no-driver", namespace: "web", source: csi(""), field: "spec.pod.volumes[0].csi.driver"},
		{name: "never", namespace: "web", source: corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{Driver: "nfs"}},
			field: "spec.pod.volumes[0].flexVolume", message: "is never offered"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := refusals(t, trust.RefusedByOffer)
			pod := shadowPod(test.namespace, test.name, nil)
			pod.Spec.Pod.Volumes = []corev1.Volume{{Name: "data", VolumeSource: test.source}}
			_, err := s.pods.Create(in(t.Context(), test.namespace), pod, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
			counted := 0
			if strings.Contains(test.message, "(offered: ") {
				counted = 1
			}
			if got := refusals(t, trust.RefusedByOffer) - before; got != counted {
				t.Errorf("%d refusals were counted, want %d", got, counted)
			}
			if test.field == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			var status apierrors.APIStatus
			if !apierrors.IsInvalid(err) || !errors.As(err, &status) || !strings.Contains(err.Error(), test.message) {
				t.Fatalf("got %v", err)
			}
			if causes := status.Status().Details.Causes; len(causes) != 1 || causes[0].Field != test.field {
				t.Errorf("causes %v", causes)
			}
		})
	}
}
