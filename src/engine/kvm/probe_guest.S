// The guest that probe.cc runs: 32-bit code for address 0x100000 of a machine with 4 MiB. It uses what a
// kernel needs, telling port 0x80 before each step which one it is, and then switches the machine off.
    .section .rodata
    .global boxlite_kvm_probe_guest, boxlite_kvm_probe_guest_end

#define AT(symbol) (symbol - boxlite_kvm_probe_guest + 0x100000)

.macro step number
    movb $\number, %al
    outb %al, $0x80
.endm

    .set page_tables, 0x10000
    .set interrupt_table, 0x20000
    .set timer_vector, 0x40
    .set timer_seen, 0x21000
    .set scratch, 0x300000

    .code32
boxlite_kvm_probe_guest:
    step 1
    movl $(page_tables + 0x1003), page_tables
    movl $(page_tables + 0x2003), page_tables + 0x1000
    movl $(page_tables + 0x2000), %edi
    movl $0x83, %eax                // the first GiB in pages of 2 MiB
    movl $512, %ecx
1:  movl %eax, (%edi)
    addl $0x200000, %eax
    addl $8, %edi
    loop 1b
    movl %cr4, %eax
    orl $0x620, %eax                // PAE, OSFXSR, OSXMMEXCPT
    movl %eax, %cr4
    movl $page_tables, %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx          // EFER: LME
    rdmsr
    orl $0x100, %eax
    wrmsr
    movl %cr0, %eax
    andl $0xfffffffb, %eax          // not EM
    orl $0x80000002, %eax           // PG, MP
    movl %eax, %cr0
    lgdt AT(segments_pointer)
    ljmp $8, $AT(long_mode)

    .code64
long_mode:
    movl $0x10, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    movl $0x200000, %esp

    step 2
    movl $3, %eax
    movq %rax, %xmm0
    paddq %xmm0, %xmm0
    movq %xmm0, %rbx
    cmpq $6, %rbx
    jne wrong

    step 3
    xorl %eax, %eax
    xorl %edx, %edx
    movl $1, %ebx
    movl $2, %ecx
    lock cmpxchg16b scratch
    jnz wrong
    cmpq $2, scratch + 8
    jne wrong

    step 4
    xorl %eax, %eax
    cpuid
    testl %eax, %eax
    jz wrong

    step 5
    movl $AT(timer), %eax
    movw %ax, interrupt_table + 16 * timer_vector
    movw $8, interrupt_table + 16 * timer_vector + 2
    movw $0x8e00, interrupt_table + 16 * timer_vector + 4
    shrl $16, %eax
    movw %ax, interrupt_table + 16 * timer_vector + 6
    lidt AT(interrupts_pointer)
    movl $0x1b, %ecx                // the local APIC in x2APIC mode
    rdmsr
    orl $0xc00, %eax
    wrmsr
    xorl %edx, %edx
    movl $0x80f, %ecx               // spurious interrupts: enabled
    movl $0x1ff, %eax
    wrmsr
    movl $0x83e, %ecx               // timer: divide by one
    movl $0xb, %eax
    wrmsr
    movl $0x832, %ecx
    movl $timer_vector, %eax        // once
    wrmsr
    movl $0x838, %ecx
    movl $100000, %eax
    wrmsr
2:  cli
    cmpl $0, timer_seen
    jne 3f
    sti
    hlt
    jmp 2b

3:  step 6
    movl $200000, %ecx
4:  decl %ecx
    jnz 4b

    movw $0x600, %dx
    movb $0x34, %al
    outb %al, %dx
5:  jmp 5b

wrong:
    step 7
    jmp 5b

timer:
    movl $1, timer_seen
    movl $0x80b, %ecx               // end of interrupt
    xorl %eax, %eax
    xorl %edx, %edx
    wrmsr
    iretq

segments:
    .quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff
segments_pointer:
    .word segments_pointer - segments - 1
    .long AT(segments)
interrupts_pointer:
    .word 0xfff
    .quad interrupt_table
boxlite_kvm_probe_guest_end:

    .section .note.GNU-stack, "", @progbits
